"""Choose the next token by each strategy, with a registered function on tensors. No model runs here."""

from guard_eval.generation.decoding.context import Context as Context
from guard_eval.generation.decoding.processor import StrategyProcessor as StrategyProcessor
