"""Functions on tensors with which strategies choose the next token. No model runs in this package."""

from guard_eval.generation.decoding.context import Context as Context
from guard_eval.generation.decoding.processor import StrategyProcessor as StrategyProcessor
