"""The decoding strategies as frozen dataclasses, which are named by their signatures. Torch is not imported.

Contrastive decoding's `amateur_prompt=last` (or `whole`) decides how much of the prompt the amateur sees.
GUARD's settings: `formulation=equations` (or `algorithm1`, `released`), `aggregation=median` (`mean`,
`winsorized`), `mapping=arctanh` (`log`), `select=argmax` (`sample`).

The defaults are from the paper's tables. The tables have no values for contrastive decoding and adaptive
decoding, so these defaults are from the methods' authors. A temperature is applied before the truncation.

`+` joins strategies that change or cut the logits of a step. They are applied from left to right:
`dry(multiplier=0.8) + min_p(p=0.05) + temperature(tau=0.8)`. If no step of a chain draws, the chain takes the
most likely token. `own.py` loads users' own strategies.
"""

from guard_eval.generation.strategies.parsing import convert_to_strategy as convert_to_strategy
from guard_eval.generation.strategies.parsing import parse as parse
from guard_eval.generation.strategies.parsing import parse_grid as parse_grid
from guard_eval.generation.strategies.values import *  # noqa: F403 (every strategy)
