"""The decoding strategies: a frozen dataclass for each, with a signature as its name. No torch.

Contrastive decoding's `amateur_prompt=last` (or `whole`) decides how much of the prompt the amateur sees.
GUARD's settings: `formulation=equations` (or `algorithm1`, `released`), `aggregation=median` (`mean`,
`winsorized`), `mapping=arctanh` (`log`), `select=argmax` (`sample`).

The defaults are those of the paper's tables. The tables do not state those of contrastive decoding and
adaptive decoding, so these are from the methods' authors. A temperature is applied before the truncation.

`+` joins strategies that change or cut the logits of a step, in the order in which they are applied:
`dry(multiplier=0.8) + min_p(p=0.05) + temperature(tau=0.8)`. If no step of a chain draws, it takes the
likeliest token. Users' own strategies: `own.py`.
"""

from guard_eval.generation.strategies.parsing import parse as parse
from guard_eval.generation.strategies.parsing import read_grid as read_grid
from guard_eval.generation.strategies.parsing import read_strategy as read_strategy
from guard_eval.generation.strategies.values import *  # noqa: F403 (every strategy)
