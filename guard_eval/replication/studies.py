"""The studies of a table of the paper: planned, laid out, found again, and how their setting differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import tomli_w

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.replication.compare import SettingDifference
from guard_eval.replication.paper import COHERENCE_MODEL, MODELS, NEW_TOKENS, PaperTable, paper_model
from guard_eval.replication.prompts import prompts_of
from guard_eval.reporting.writing import write_whole
from guard_eval.study import Study
from guard_eval.study.files import read_toml
from guard_eval.study.folder import BUNDLED, check_settings, seen_from
from guard_eval.study.overrides import with_overrides
from guard_eval.study.settings import needs_amateur
from guard_eval.texts.new import prompt_lines
from guard_eval.texts.prompts import read_prompts

Studies = Sequence[tuple[str, Study]]
"""Each with the paper's name of its model."""


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """A study before it is written: its folder, its model's name in the paper, its settings and prompts."""

    folder: Path
    model: str
    tables: Mapping[str, Any]
    prompts: Sequence[Prompt] = field(repr=False)

    def forecast(self) -> list[str]:
        """Return what would be written."""
        generation = self.tables["generation"]
        texts = len(self.prompts) * len(generation["strategies"])
        counts = Counter(prompt.dataset for prompt in self.prompts)
        named = ", ".join(f"{count} of {name}" for name, count in counts.items())
        model = self.tables["model"]["name"]
        tokens = texts * generation["max_new_tokens"]
        return [
            f"would write {self.folder / 'study.toml'} ({model}) and {len(self.prompts)} prompts ({named})",
            f"would make {texts} texts of at most {tokens:,} tokens",
        ]

    def lay_out(self) -> Study:
        """Write the study's files, unless they are there, and return the study.

        Raises:
            StudyError: The folder has a study with other settings or prompts.
        """
        file, prompts = self.folder / "study.toml", self.folder / "prompts.jsonl"
        lines = prompt_lines(self.prompts)
        if not file.exists():
            write_whole(prompts, lines, make_folder=True)
            # Last, because its presence says that the folder is complete.
            write_whole(file, tomli_w.dumps(dict(self.tables)).encode())
            progress.notice(f"{file}: the settings; {len(self.prompts)} prompts beside it")
        elif read_toml(file) != self.tables or prompts.read_bytes() != lines:
            raise StudyError(
                f"{self.folder} holds a replication with other settings or prompts; name another FOLDER, or "
                "leave the options out to go on with it"
            )
        return Study.open(self.folder)


def plan_studies(
    table: PaperTable, folder: Path, files: Sequence[Path], limit: int | None, overrides: Sequence[str]
) -> list[StudyPlan]:
    """Return the studies of a table: one, or one for each of its models in a folder of its own.

    Raises:
        StudyError: There are no prompts, or a setting is wrong.
    """
    tables = with_overrides(table.tables(), overrides)
    paper, model = table.tables()["model"]["name"], tables["model"]
    if table.kind == "verdicts" and limit:
        tables["pairs"]["per_dataset"] = min(limit, tables["pairs"]["per_dataset"])
    if not any(each.partition("=")[0].strip() == "model.amateur" for each in overrides) and (
        model["name"] != paper and model.pop("amateur", None)
    ):
        strategies = tables["generation"]["strategies"]
        tables["generation"]["strategies"] = [name for name in strategies if not needs_amateur(name)]
        progress.notice(
            f"contrastive_decoding is left out: it needs a smaller model of {model['name']}'s family; name "
            "one with --set model.amateur=NAME"
        )
    metrics = tables["metrics"]
    if model["name"] == BUNDLED and not any(each.startswith("metrics.") for each in overrides):
        # The bundled model is for trying things out, where there may be no network.
        local = [name for name in metrics["compute"] if name not in {"mauve", "bertscore"}]
        metrics |= {"compute": local or metrics["compute"], "coherence_model": BUNDLED}
    for part, key in ((model, "name"), (model, "amateur"), (metrics, "coherence_model")):
        if isinstance(part.get(key), str):
            part[key] = seen_from(folder, part[key])
    check_settings(tables, folder, overrides)
    prompts = prompts_of(table, files, limit=limit, bundled=model["name"] == BUNDLED, seed=tables["seed"])
    if len(table.models) == 1 or model["name"] != paper:
        name = paper_model(model["name"], table.models) or table.models[0]
        return [StudyPlan(folder=folder, model=name, tables=tables, prompts=prompts)]
    return [
        StudyPlan(
            folder=folder / name,
            model=name,
            tables={**tables, "model": {**model, "name": MODELS[name]}},
            prompts=prompts,
        )
        for name in table.models
    ]


def existing_studies(table: PaperTable, folder: Path) -> Studies:
    """Return the studies in a folder: the folder itself, or the studies in it."""
    files = [folder / "study.toml"] if (folder / "study.toml").exists() else folder.glob("*/study.toml")
    studies = [Study.open(path.parent) for path in sorted(files)]
    return [
        (paper_model(study.settings.model.name, table.models) or table.models[0], study) for study in studies
    ]


def setting_differences(table: PaperTable, studies: Studies) -> list[SettingDifference]:
    """Return what studies do otherwise than the paper says it did.

    What the paper does not say (the prompts' length in tokens, the arithmetic, contrastive decoding's and
    adaptive decoding's settings, seeds) cannot differ from it.
    """
    differences: list[SettingDifference] = []
    for model, study in studies:
        settings, wanted = study.settings, MODELS[model]
        counts = Counter(p.dataset for p in read_prompts(study.prompts_path, limit=settings.prompts.limit))
        words = []
        if (used := settings.model.name) != wanted:
            shown = PurePath(used).name if used.startswith((".", "/")) else used
            instead = f"not {wanted}" if table.named else f"where we take {wanted}, as the paper names none"
            words.append(f"model {shown}, {instead}")
        if (tokens := settings.generation.max_new_tokens) != NEW_TOKENS:
            words.append(f"at most {tokens} tokens a text, not {NEW_TOKENS}")
        if settings.generation.chat:
            words.append("prompts through a chat template")
        scorer = settings.metrics.coherence_model
        if "coherence" in settings.metrics.compute and scorer != COHERENCE_MODEL:
            words.append(f"coherence by {PurePath(scorer).name}, not {COHERENCE_MODEL}")
        if "" in table.prompts and (count := counts.total()) != table.prompts[""]:
            words.append(f"{count} prompts, not {table.prompts['']}")
        concerned = model if len(table.models) > 1 else ""
        differences += [SettingDifference(words=text, model=concerned) for text in words]
        for dataset, number in table.prompts.items():
            if dataset and (dataset in counts or table.kind == "verdicts") and counts[dataset] != number:
                text = f"{counts[dataset] or 'no'} prompts of {dataset}, not {number}"
                differences.append(SettingDifference(words=text, dataset=dataset))
    return differences
