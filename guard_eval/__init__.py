"""Find out which decoding strategy writes better text, and how sure we are.

    from guard_eval import Guard, TopP, generate, measure

    texts = [generate(prompts, strategy) for strategy in (Guard(), TopP(p=0.9))]
    measure(*texts)

From a program: `generate` and `watch` make texts, `load_model` keeps a model for several calls, `measure`
scores texts; every strategy is a class; `analysis` reads verdicts. What the commands do with a study is in
`guard_eval.cli.commands`. What is not a strategy is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from guard_eval import strategies as _strategies
from guard_eval.strategies import *  # noqa: F403 (every strategy)

if TYPE_CHECKING:
    from guard_eval.cli.measuring.from_python import measure
    from guard_eval.engines.library import Texts, Token, generate, load_model, watch
    from guard_eval.errors import StudyError
    from guard_eval.records import Prompt
else:
    _MODULES = {
        **dict.fromkeys(("Texts", "Token", "generate", "load_model", "watch"), "guard_eval.engines.library"),
        "Prompt": "guard_eval.records",
        "StudyError": "guard_eval.errors",
        "measure": "guard_eval.cli.measuring.from_python",
    }

    def __getattr__(name: str) -> object:
        """Return what has this name, from the module that is loaded now."""
        if name == "__version__":
            return version("guard-eval")
        if name not in _MODULES:
            raise AttributeError(f"module 'guard_eval' has no {name!r}; `dir(guard_eval)` lists what it has")
        return getattr(import_module(_MODULES[name]), name)

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]


__all__ = ["Prompt", "StudyError", "Texts", "Token", "generate", "load_model", "measure", "watch"]
__all__ += _strategies.__all__
