"""Forget the user's own strategies, as if no command had loaded them."""

from typing import TYPE_CHECKING

from guard_eval.generation.strategies import own

if TYPE_CHECKING:
    pass


def forget_own_strategies(patch):
    for name in ("_classes", "spellings", "recorded"):
        patch.setattr(own, name, {})
    patch.setattr(own, "_loaded_paths", set())
    patch.setenv(own.VARIABLE, "")
