"""Plan and write the study of a table of the paper, with its prompts, and find differences in the setting."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tomli_w

from analysis.replication.paper import ALIASES, MODELS, PROMPTS, PaperTable, find_paper_dataset
from guard_eval import progress
from guard_eval.demo import PROMPTS as BUNDLED_PROMPTS
from guard_eval.errors import StudyError
from guard_eval.files.opening import read_bytes
from guard_eval.files.rows import MOST_BYTES
from guard_eval.records import JsonObject, Prompt
from guard_eval.reporting.rendering import render_lines
from guard_eval.study import Study
from guard_eval.study.folder import check_settings, make_model_folder_relative
from guard_eval.study.settings import needs_amateur
from guard_eval.study.system_settings import BUNDLED
from guard_eval.study.toml import apply_overrides, read_toml
from guard_eval.texts.new import format_prompts, write_new_study
from guard_eval.texts.pairing import draw_prompts
from guard_eval.texts.prompts import read_prompts, read_study_prompts

WHERE = (
    "the paper's prompts are those of Li et al. 2023 and are not shipped: the files wikitext_, wikinews_ and "
    "book_contrastive_gpt2-xl_256.jsonl under data_from_CD_repo/benchmarks in "
    "github.com/yxuansu/Contrastive_Search_versus_Contrastive_Decoding; --prompts reads them as they are"
)
"""A text that tells users where to find the paper's prompts."""

USUAL = Path("prompts")
"""The folder from which prompts are read by default."""
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")


def plan_replication(
    table: PaperTable, folder: Path, paths: Sequence[Path], limit: int | None, overrides: Sequence[str]
) -> tuple[JsonObject, list[Prompt]]:
    """Return the study.toml for a table of the paper, and the prompts. The model is the table's first model.

    Raises:
        StudyError: There are no prompts, or a setting is wrong.
    """
    tables = apply_overrides(table.make_study_tables(), overrides)
    model = tables["model"]
    generation = tables["generation"]
    metrics = tables["metrics"]
    replaced = {assignment.partition("=")[0].strip() for assignment in overrides}
    is_bundled = model["name"] == BUNDLED
    own_model = model["name"] != MODELS[table.models[0]]
    if own_model and "model.amateur" not in replaced and model.pop("amateur", ""):
        generation["strategies"] = [name for name in generation["strategies"] if not needs_amateur(name)]
        progress.show_notice(
            f"contrastive_decoding is left out: it needs a smaller model of {model['name']}'s family; name "
            "one with --set model.amateur=NAME"
        )
    if is_bundled and not any(key.startswith("metrics.") for key in replaced):
        # People use the bundled model for trials, perhaps without a network.
        local = [name for name in metrics["compute"] if name not in {"mauve", "bertscore"}]
        metrics |= {"compute": local or metrics["compute"], "coherence_model": BUNDLED}
    for settings, key in ((model, "name"), (model, "amateur"), (metrics, "coherence_model")):
        if isinstance(settings.get(key), str):
            settings[key] = make_model_folder_relative(folder, settings[key])
    check_settings(tables, folder)
    return tables, choose_prompts(
        table,
        paths,
        limit=limit,
        bundled=is_bundled,
        seed=tables["seed"],
    )


def choose_prompts(
    table: PaperTable, paths: Sequence[Path], *, limit: int | None, bundled: bool, seed: int
) -> list[Prompt]:
    """Choose the prompts for a table of the paper.

    Args:
        table: The table.
        paths: Files of prompts or of generations, or folders with such files. Default: the folder `prompts`.
        limit: The largest number of prompts from each dataset. The seed decides which prompts are used.
        bundled: Use the bundled prompts if there are no others.
        seed: The study's seed.

    Raises:
        StudyError: There are no prompts, a file cannot be read, or two prompts have the same id.
    """
    usual = [BUNDLED_PROMPTS] if bundled else []
    if USUAL.is_dir():
        usual = [USUAL]
    others = PROMPTS.keys() - table.datasets
    prompts = [prompt for prompt in read_prompt_files(paths or usual) if prompt.dataset not in others]
    if not prompts:
        raise StudyError(
            f"there are no prompts of {', '.join(table.datasets)}; name files with --prompts, or put them "
            f"into {USUAL}/: {WHERE}"
        )
    per_dataset = table.make_study_tables()["pairs"]["per_dataset"] if table.asks else len(prompts)
    return draw_prompts(prompts, per_dataset=min(limit or per_dataset, per_dataset), seed=seed)


def read_prompt_files(paths: Sequence[Path]) -> list[Prompt]:
    """Read prompts from files and from the files in folders, with the paper's names of datasets.

    A file holds prompts, or generations with a prompt and a reference each. The name of the file begins with
    the name of the dataset. If an id is a number, the name of the dataset is added before the number.

    Raises:
        StudyError: A file cannot be read, or two prompts have the same id.
    """
    prompts: dict[str, Prompt] = {}
    for path in paths:
        files = [path]
        if path.is_dir():
            files = [file for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES]
        for file in files:
            dataset = find_paper_dataset(file.stem.split("_")[0].split("-")[0])
            for prompt in read_prompts(file, dataset=dataset if dataset in ALIASES else None):
                name = f"{prompt.dataset}-{prompt.id}" if prompt.id.isdigit() else prompt.id
                if name in prompts:
                    raise StudyError(f"two prompts have the id {name!r}. Change one, or name each file once")
                prompts[name] = replace(prompt, id=name, dataset=find_paper_dataset(prompt.dataset))
    return list(prompts.values())


def write_study(folder: Path, tables: JsonObject, prompts: Sequence[Prompt]) -> Study:
    """Write the files of a study that do not exist yet, and return the study.

    Raises:
        StudyError: The folder has a study with other settings or prompts, or another file prompts.jsonl.
    """
    settings = folder / "study.toml"
    prompts_path = folder / "prompts.jsonl"
    lines = format_prompts(prompts)
    if not settings.exists():
        write_new_study(folder, {prompts_path.name: lines}, tomli_w.dumps(tables))
        progress.show_notice(f"{settings}: the settings; {len(prompts)} prompts beside it")
    elif read_toml(settings) != tables or read_bytes(prompts_path, limit=MOST_BYTES) != lines:
        raise StudyError(
            f"{folder} has a replication with other settings or prompts. Name another folder, or leave the "
            "options out to continue the replication"
        )
    return Study.open(folder)


def find_paper_model(table: PaperTable, study: Study) -> str:
    """Return the paper's name of the study's model. For other models, return the table's first model."""
    names = (name for name in table.models if MODELS[name] == study.settings.model.name)
    return next(names, table.models[0])


def find_setting_differences(table: PaperTable, study: Study) -> tuple[str, ...]:
    """Return the differences between a study's setting and the paper's.

    Settings that the paper does not state are not compared: the prompts' length in tokens, the arithmetic,
    the settings of contrastive decoding and adaptive decoding, and seeds.
    """
    counts = Counter(prompt.dataset for prompt in read_study_prompts(study))
    return render_lines(
        __file__,
        "differences.txt",
        table=table,
        study=study,
        papers=table.make_study_tables(),
        model=MODELS[find_paper_model(table, study)],
        counts=counts,
    )
