"""Find out which way of decoding a language model writes better text, and how sure we are.

    from guard_eval import Guard, TopP, generate, measure

    texts = [generate(prompts, strategy) for strategy in (Guard(), TopP(p=0.9))]
    measure(*texts)

`generate` makes texts, `load_model` keeps a model for several calls, `measure` scores texts, `new` makes a
study of texts, and every strategy is a class. Each name is loaded when it is used, and nothing is imported
here: until `__main__` has changed the search path, a module could come from the current folder.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from guard_eval.errors import StudyError
    from guard_eval.generation.library import Texts, generate, load_model
    from guard_eval.generation.strategies import *  # noqa: F403 (every strategy)
    from guard_eval.metrics.command import measure
    from guard_eval.records import Prompt
    from guard_eval.texts.new import new

__all__ = [  # noqa: F405 (of the strategies)
    "AdaptiveContrastiveSearch", "AdaptiveDecoding", "BeamSearch", "Chain", "ContrastiveDecoding",
    "ContrastiveSearch", "Dry", "EpsilonSampling", "EtaSampling", "FrequencyPenalty", "Greedy", "Guard",
    "MinP", "Mirostat", "NoRepeatNgram", "PLess", "Penalty", "PresencePenalty", "Prompt",
    "RepetitionPenalty", "Sampler", "Step", "StudyError", "Temperature", "Texts", "TopK",
    "TopNSigma", "TopP", "Truncation", "Typical", "generate", "load_model", "measure", "new",
]  # fmt: skip

if not TYPE_CHECKING:
    _MODULES = {
        **dict.fromkeys(("Texts", "generate", "load_model"), "guard_eval.generation.library"),
        "Prompt": "guard_eval.records",
        "StudyError": "guard_eval.errors",
        "measure": "guard_eval.metrics.command",
        "new": "guard_eval.texts.new",
    }

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        from importlib import import_module, metadata  # noqa: PLC0415

        if name == "__version__":
            return metadata.version("guard-eval")
        if name not in __all__:
            raise AttributeError(f"module 'guard_eval' has no {name!r}; `dir(guard_eval)` lists what it has")
        return getattr(import_module(_MODULES.get(name, "guard_eval.generation.strategies")), name)

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
