"""How each strategy chooses the next token: a registered tensor function for each. No model runs here.

`StrategyProcessor` runs them in transformers' own `generate`. To import it imports transformers.
"""

from typing import TYPE_CHECKING

from guard_eval.decoding.steps import Context as Context

if TYPE_CHECKING:
    from guard_eval.decoding.processor import StrategyProcessor as StrategyProcessor


def __getattr__(name: str) -> object:
    if name != "StrategyProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from guard_eval.decoding.processor import StrategyProcessor  # noqa: PLC0415 (transformers is heavy)

    return StrategyProcessor
