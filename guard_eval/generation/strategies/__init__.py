"""The decoding strategies as values: a frozen dataclass each, named everywhere by its signature. No torch.

Contrastive decoding's `amateur_prompt=last` (or `whole`) says how much of the prompt the amateur sees.
GUARD's settings: `formulation=equations` (or `algorithm1`, `released`), `aggregation=median` (`mean`,
`winsorized`), `mapping=arctanh` (`log`), `select=argmax` (`sample`).

The defaults are those of the paper's tables where these state them; contrastive decoding's and adaptive
decoding's, which they do not state, are the methods' authors'. A temperature comes before the truncation.

Strategies that change or cut the logits of a step are put one after the other by `+`, in the order in which
they are applied: `dry(multiplier=0.8) + min_p(p=0.05) + temperature(tau=0.8)`. Penalties alone, which draw
nothing, take the likeliest token of what they leave. Users' own strategies: `own.py`.
"""

from guard_eval.generation.strategies.parsing import parse as parse
from guard_eval.generation.strategies.parsing import read_grid as read_grid
from guard_eval.generation.strategies.values import *  # noqa: F403 (every strategy)
