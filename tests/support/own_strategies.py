"""Forget the user's own strategies, as if no command had loaded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guard_eval.generation.strategies import own

if TYPE_CHECKING:
    import pytest


def forget_own_strategies(patch: pytest.MonkeyPatch) -> None:
    for name in ("_classes", "spellings", "recorded"):
        patch.setattr(own, name, {})
    patch.setattr(own, "_loaded_paths", set())
    patch.setenv(own.VARIABLE, "")
