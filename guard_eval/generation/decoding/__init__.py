"""How each strategy chooses the next token: a registered tensor function for each. No model runs here."""

from guard_eval.generation.decoding.processor import StrategyProcessor as StrategyProcessor
from guard_eval.generation.decoding.steps import Context as Context
