"""The decoding strategies as values: a frozen dataclass each, named everywhere by its signature. No torch.

Contrastive decoding's `amateur_prompt=last` (or `whole`) says how much of the prompt the amateur sees.
GUARD's settings: `formulation=equations` (or `algorithm1`, `released`), `aggregation=median` (`mean`,
`winsorized`), `mapping=arctanh` (`log`), `select=argmax` (`sample`).

The defaults are those of the paper's tables where these state them; contrastive decoding's and adaptive
decoding's, which they do not state, are the methods' authors'. A temperature comes before the truncation, but
after min-k's, which is defined on logits as they are.

Strategies that change or cut the logits of a step are put one after the other by `+`, in the order in which
they are applied: `dry(multiplier=0.8) + min_p(p=0.05) + temperature(tau=0.8)`. Penalties alone, which draw
nothing, take the likeliest token of what they leave. Users' own strategies: `own.py`.
"""

from guard_eval.strategies.parsing import parse as parse
from guard_eval.strategies.protocol import apply_step as apply_step
from guard_eval.strategies.protocol import initial_state as initial_state
from guard_eval.strategies.protocol import trace_values as trace_values
from guard_eval.strategies.protocol import update_state as update_state
from guard_eval.strategies.values import SOURCES as SOURCES
from guard_eval.strategies.values import STRATEGIES as STRATEGIES
from guard_eval.strategies.values import AdaptiveContrastiveSearch as AdaptiveContrastiveSearch
from guard_eval.strategies.values import AdaptiveDecoding as AdaptiveDecoding
from guard_eval.strategies.values import BeamSearch as BeamSearch
from guard_eval.strategies.values import Chain as Chain
from guard_eval.strategies.values import ContrastiveDecoding as ContrastiveDecoding
from guard_eval.strategies.values import ContrastiveSearch as ContrastiveSearch
from guard_eval.strategies.values import Dry as Dry
from guard_eval.strategies.values import EpsilonSampling as EpsilonSampling
from guard_eval.strategies.values import EtaSampling as EtaSampling
from guard_eval.strategies.values import ExcludeTopChoices as ExcludeTopChoices
from guard_eval.strategies.values import FrequencyPenalty as FrequencyPenalty
from guard_eval.strategies.values import Greedy as Greedy
from guard_eval.strategies.values import Guard as Guard
from guard_eval.strategies.values import MinK as MinK
from guard_eval.strategies.values import MinP as MinP
from guard_eval.strategies.values import Mirostat as Mirostat
from guard_eval.strategies.values import NoRepeatNgram as NoRepeatNgram
from guard_eval.strategies.values import Penalty as Penalty
from guard_eval.strategies.values import PLess as PLess
from guard_eval.strategies.values import PresencePenalty as PresencePenalty
from guard_eval.strategies.values import RepetitionPenalty as RepetitionPenalty
from guard_eval.strategies.values import Sampler as Sampler
from guard_eval.strategies.values import Step as Step
from guard_eval.strategies.values import Strategy as Strategy
from guard_eval.strategies.values import Temperature as Temperature
from guard_eval.strategies.values import TopH as TopH
from guard_eval.strategies.values import TopK as TopK
from guard_eval.strategies.values import TopNSigma as TopNSigma
from guard_eval.strategies.values import TopP as TopP
from guard_eval.strategies.values import Typical as Typical
from guard_eval.strategies.values import draws as draws
from guard_eval.strategies.values import signature as signature
