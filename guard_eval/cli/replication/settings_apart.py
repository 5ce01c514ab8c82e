"""Where a study's setting is not that of the paper's table: a difference then says nothing of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from guard_eval.cli.replication.figures import Figure
from guard_eval.cli.replication.registry import COHERENCE_MODEL, MODELS, NEW_TOKENS, Entry
from guard_eval.study.settings import Settings
from guard_eval.texts.generations import HUMAN


@dataclass(frozen=True, kw_only=True)
class Departures:
    """What differs from the paper's setting.

    Attributes:
        common: What holds for all figures.
        datasets: What holds for those of a dataset.
        models: What holds for those of a model.
    """

    common: tuple[str, ...] = ()
    datasets: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def hold_for(self, figure: Figure) -> bool:
        """Say whether a figure is of another setting than the paper's.

        The references' diversity is that of the prompts alone, whichever model continues them.
        """
        part = bool(self.datasets) if figure.dataset in {"", "All"} else figure.dataset in self.datasets
        if (figure.strategy, figure.metric) == (HUMAN, "diversity"):
            return part
        return bool(self.common or part or self.models.get(figure.model))

    @property
    def words(self) -> tuple[str, ...]:
        """Return all of them, each once."""
        of_models = (f"{model}: {', '.join(what)}" for model, what in self.models.items() if what)
        return tuple(dict.fromkeys((*self.common, *self.datasets.values(), *of_models)))


def departures(
    entry: Entry, settings: Settings, prompts: Mapping[str, int], *, model: str = ""
) -> Departures:
    """Return what a study does otherwise than the paper says it did.

    What the paper does not say (the prompts' length in tokens, the arithmetic, contrastive decoding's and
    adaptive decoding's settings, seeds) cannot depart from it.

    Args:
        entry: The table.
        settings: The study's.
        prompts: How many prompts of each dataset it has.
        model: Which of the paper's models it stands for; the entry's first if not given.
    """
    wanted = MODELS[model or entry.models[0]]
    used = settings.model.name
    found = []
    if used != wanted.hub:
        shown = PurePath(used).name if used.startswith((".", "/")) else used
        instead = (
            f"not {wanted.hub}" if entry.named else f"where we take {wanted.hub}, as the paper names none"
        )
        found.append(f"model {shown}, {instead}")
    if (tokens := settings.generation.max_new_tokens) != NEW_TOKENS:
        found.append(f"at most {tokens} tokens a text, not {NEW_TOKENS}")
    if settings.generation.chat:
        found.append("prompts through a chat template")
    if (
        "coherence" in settings.metrics.compute
        and (scorer := settings.metrics.coherence_model) != COHERENCE_MODEL
    ):
        found.append(f"coherence by {PurePath(scorer).name}, not {COHERENCE_MODEL}")
    if "" in (entry.prompts or {}):
        asked, here = (entry.prompts or {})[""], sum(prompts.values())
        found += [f"{here} prompts, not {asked}"] if here != asked else []
        return Departures(common=tuple(found))
    short = {
        dataset: f"{prompts[dataset]} prompts of {dataset}, not {asked}"
        for dataset, asked in (entry.prompts or {}).items()
        if dataset in prompts and prompts[dataset] != asked
    }
    missing = [dataset for dataset in entry.prompts or {} if dataset not in prompts]
    if missing and entry.kind == "verdicts":
        short |= {dataset: f"no prompts of {dataset}" for dataset in missing}
    return Departures(common=tuple(found), datasets=short)
