"""How each strategy chooses the next token: a registered tensor function for each. No model runs here."""

from guard_eval.generation.decoding.context import Context as Context
from guard_eval.generation.decoding.processor import StrategyProcessor as StrategyProcessor
