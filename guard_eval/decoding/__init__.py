"""How each strategy chooses the next token: pure tensor functions, one per equation. No model runs here.

`GuardLogitsProcessor` runs GUARD within transformers' own `generate`; to import it imports transformers.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guard_eval.decoding.processor import GuardLogitsProcessor

__all__ = ["GuardLogitsProcessor"]


def __getattr__(name: str) -> object:
    if name != "GuardLogitsProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from guard_eval.decoding.processor import GuardLogitsProcessor  # noqa: PLC0415 (transformers is heavy)

    return GuardLogitsProcessor
