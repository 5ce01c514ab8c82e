"""Plan and write the study of a table of the paper, and find the differences from the paper's setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from analysis.replication.compare import SettingDifference
from analysis.replication.paper import MODELS, PaperTable
from analysis.replication.prompts import choose_prompts
from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.files.opening import read_bytes
from guard_eval.files.rows import MOST_BYTES
from guard_eval.records import Prompt
from guard_eval.reporting.writing import write_whole
from guard_eval.study import Study
from guard_eval.study.folder import check_settings, relative_to_study
from guard_eval.study.schema import write_study_toml
from guard_eval.study.settings import needs_amateur
from guard_eval.study.system_settings import BUNDLED
from guard_eval.study.toml import apply_overrides, read_toml
from guard_eval.texts.new import format_prompts
from guard_eval.texts.prompts import read_study_prompts


def plan_replication(
    table: PaperTable, folder: Path, paths: Sequence[Path], limit: int | None, overrides: Sequence[str]
) -> tuple[dict[str, Any], list[Prompt]]:
    """Return the study.toml for a table of the paper, and the prompts. The model is the table's first model.

    Raises:
        StudyError: There are no prompts, or a setting is wrong.
    """
    tables = apply_overrides(table.tables(), overrides)
    model = tables["model"]
    generation = tables["generation"]
    metrics = tables["metrics"]
    replaced = {assignment.partition("=")[0].strip() for assignment in overrides}
    is_bundled = model["name"] == BUNDLED
    own_model = model["name"] != MODELS[table.models[0]]
    if own_model and "model.amateur" not in replaced and model.pop("amateur", ""):
        generation["strategies"] = [name for name in generation["strategies"] if not needs_amateur(name)]
        progress.notice(
            f"contrastive_decoding is left out: it needs a smaller model of {model['name']}'s family; name "
            "one with --set model.amateur=NAME"
        )
    if is_bundled and not any(key.startswith("metrics.") for key in replaced):
        # People use the bundled model for trials, perhaps without a network.
        local = [name for name in metrics["compute"] if name not in {"mauve", "bertscore"}]
        metrics |= {"compute": local or metrics["compute"], "coherence_model": BUNDLED}
    for settings, key in ((model, "name"), (model, "amateur"), (metrics, "coherence_model")):
        if isinstance(settings.get(key), str):
            settings[key] = relative_to_study(folder, settings[key])
    check_settings(tables, folder)
    return tables, choose_prompts(
        table,
        paths,
        limit=limit,
        bundled=is_bundled,
        seed=tables["seed"],
    )


def write_study(folder: Path, tables: dict[str, Any], prompts: Sequence[Prompt]) -> Study:
    """Write the files of a study that do not exist yet, and return the study.

    Raises:
        StudyError: The folder has a study with other settings or prompts.
    """
    settings = folder / "study.toml"
    prompts_path = folder / "prompts.jsonl"
    lines = format_prompts(prompts)
    if not settings.exists():
        write_whole(prompts_path, lines, make_folder=True)
        write_study_toml(folder, tomli_w.dumps(tables).encode())
        progress.notice(f"{settings}: the settings; {len(prompts)} prompts beside it")
    elif read_toml(settings) != tables or read_bytes(prompts_path, limit=MOST_BYTES) != lines:
        raise StudyError(
            f"{folder} holds a replication with other settings or prompts; name another FOLDER, or leave the "
            "options out to go on with it"
        )
    return Study.open(folder)


def name_model(table: PaperTable, study: Study) -> str:
    """Return the paper's name of the study's model. For other models, return the table's first model."""
    names = (name for name in table.models if MODELS[name] == study.settings.model.name)
    return next(names, table.models[0])


def find_differences(table: PaperTable, study: Study) -> list[SettingDifference]:
    """Return the differences between a study's setting and the paper's.

    Settings that the paper does not state are not compared: the prompts' length in tokens, the arithmetic,
    the settings of contrastive decoding and adaptive decoding, and seeds.
    """
    settings = study.settings
    papers = table.tables()
    model = MODELS[name_model(table, study)]
    used = settings.model.name
    tokens = settings.generation.max_new_tokens
    papers_tokens = papers["generation"]["max_new_tokens"]
    scorer = settings.metrics.coherence_model
    papers_scorer = papers["metrics"]["coherence_model"]
    instead = f"not {model}" if table.named else f"where we take {model}, as the paper names none"
    differing = {
        f"model {used}, {instead}": used != model,
        f"at most {tokens} tokens a text, not {papers_tokens}": tokens != papers_tokens,
        "prompts through a chat template": settings.generation.chat,
        f"coherence by {scorer}, not {papers_scorer}": (
            "coherence" in settings.metrics.compute and scorer != papers_scorer
        ),
    }
    differences = [SettingDifference(words) for words, differs in differing.items() if differs]
    counts = Counter(prompt.dataset for prompt in read_study_prompts(study))
    for dataset, number in table.prompts.items():
        if (dataset in counts or table.asks) and counts[dataset] != number:
            words = f"{counts[dataset] or 'no'} prompts of {dataset}, not {number}"
            differences.append(SettingDifference(words, dataset))
    return differences
