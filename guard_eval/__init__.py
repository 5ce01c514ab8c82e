"""Find out which way of decoding a language model writes better text, and how sure we are.

    from guard_eval import Guard, TopP, generate, measure

    texts = [generate(prompts, strategy) for strategy in (Guard(), TopP(p=0.9))]
    measure(*texts)

`generate` and `watch` make texts, `load_model` keeps a model for several calls, `measure` scores texts, and
every strategy is a class. Each name is loaded when it is used, and nothing is imported here: until `__main__`
has changed the search path, a module could come from the current folder.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from guard_eval.engines.library import Texts as Texts
    from guard_eval.engines.library import Token as Token
    from guard_eval.engines.library import generate as generate
    from guard_eval.engines.library import load_model as load_model
    from guard_eval.engines.library import watch as watch
    from guard_eval.errors import StudyError as StudyError
    from guard_eval.metrics.command import measure as measure
    from guard_eval.records import Prompt as Prompt
    from guard_eval.strategies import *  # noqa: F403 (every strategy)
else:
    _MODULES = {
        **dict.fromkeys(("Texts", "Token", "generate", "load_model", "watch"), "guard_eval.engines.library"),
        "Prompt": "guard_eval.records",
        "StudyError": "guard_eval.errors",
        "measure": "guard_eval.metrics.command",
    }

    def __getattr__(name: str) -> object:
        """Return what has this name, from the module that is loaded now."""
        from importlib import import_module, metadata  # noqa: PLC0415

        if name == "__version__":
            return metadata.version("guard-eval")
        if name == "__all__":
            return [public for public in __dir__() if public != "__version__"]
        if name not in _MODULES and not name[:1].isupper():
            raise AttributeError(f"module 'guard_eval' has no {name!r}; `dir(guard_eval)` lists what it has")
        return getattr(import_module(_MODULES.get(name, "guard_eval.strategies.values")), name)

    def __dir__() -> list[str]:
        from guard_eval.strategies import values  # noqa: PLC0415

        classes = [
            name
            for name, kind in vars(values).items()
            if name[0].isupper() and isinstance(kind, type) and kind.__module__ == values.__name__
        ]
        return sorted([*_MODULES, *classes, "__version__"])
