"""The prompts of a replication: from files as people have them, under the paper's names of its datasets."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from guard_eval.demo import PROMPTS as BUNDLED_PROMPTS
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.replication.paper import PROMPTS, PaperTable
from guard_eval.texts.generation_files import UNNAMED, read_generations
from guard_eval.texts.pairing import draw_prompts
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.rows import TEXT, read_rows

ALIASES = {
    "Wikitext": ("wikitext", "wiki", "wikitext103"),
    "Wikinews": ("wikinews", "news"),
    "BookCorpus": ("bookcorpus", "book", "books", "story"),
}
WHERE = (
    "the paper's are those of Li et al. 2023 and are not shipped: the files wikitext_, wikinews_ and "
    "book_contrastive_gpt2-xl_256.jsonl under data_from_CD_repo/benchmarks in "
    "github.com/yxuansu/Contrastive_Search_versus_Contrastive_Decoding; --prompts reads them as they are"
)
"""Where the paper's prompts come from."""

USUAL = Path("prompts")
"""The folder that is read if none is named."""
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")


@functools.cache
def dataset_named(name: str) -> str:
    """Return the paper's name of a dataset; one that it does not have keeps its own.

    >>> dataset_named("wikitext"), dataset_named("book"), dataset_named("tales")
    ('Wikitext', 'BookCorpus', 'tales')
    """
    plain = "".join(character for character in name.casefold() if character.isalnum())
    return next((paper for paper, names in ALIASES.items() if plain in names), name)


def prompts_of(
    table: PaperTable, paths: Sequence[Path], *, limit: int | None, bundled: bool, seed: int
) -> list[Prompt]:
    """Return the prompts of a table.

    Args:
        table: The table.
        paths: Files of prompts or of generations, or folders of them; by default the folder `prompts`.
        limit: The first so many prompts of each dataset.
        bundled: Whether the bundled prompts serve if there are no others.
        seed: The seed by which pairs are drawn.

    Raises:
        StudyError: There are no prompts, a file cannot be read, or two prompts have one id.
    """
    usual = [USUAL] if USUAL.is_dir() else [BUNDLED_PROMPTS] if bundled else []
    datasets: dict[str, list[Prompt]] = {}
    for prompt in read_files(paths or usual):
        if prompt.dataset in table.datasets or prompt.dataset not in PROMPTS:  # not another table's
            datasets.setdefault(prompt.dataset, []).append(prompt)
    if not datasets:
        raise StudyError(
            f"there are no prompts of {', '.join(table.datasets)}; name files with --prompts, or put them "
            f"into {USUAL}/: {WHERE}"
        )
    if table.asks:
        per_dataset = table.tables()["pairs"]["per_dataset"]
        prompts = list(chain(*datasets.values()))
        return draw_prompts(prompts, per_dataset=min(limit or per_dataset, per_dataset), seed=seed)
    return [prompt for prompts in datasets.values() for prompt in prompts[:limit]]


def read_files(paths: Sequence[Path]) -> list[Prompt]:
    """Return the prompts of files and of the files in folders, with the paper's names of datasets.

    A file holds prompts as `guard-eval generate` takes them, or generations with prompt and reference each.

    Raises:
        StudyError: A file cannot be read, or two prompts have one id.
    """
    folders = {path: sorted(path.iterdir()) for path in paths if path.is_dir()}
    files = [file for path in paths for file in folders.get(path, [path])]
    prompts = [
        replace(prompt, dataset=dataset_named(prompt.dataset))
        for file in files
        if file in paths or file.suffix in _SUFFIXES
        for prompt in _read(file)
    ]
    ids = Counter(prompt.id for prompt in prompts)
    if repeated := [name for name, count in ids.items() if count > 1]:
        raise StudyError(f"two prompts have the id {repeated[0]!r}; name each file once, or change one")
    return prompts


def _read(path: Path) -> list[Prompt]:
    if path.suffix == ".txt" or not path.exists():
        return read_prompts(path)
    first = next(iter(read_rows(path)), None)
    if first is None or not {*TEXT} & {*first.row}:
        return read_prompts(path)
    dataset = dataset_of(path)
    prompts: dict[str, Prompt] = {}
    for text in read_generations(path, dataset=dataset):
        if text.prompt is None:
            raise StudyError(f"{path} has texts without a prompt (the first: {text.prompt_id!r}); {WHERE}")
        name = dataset if text.dataset == UNNAMED else text.dataset
        id_ = f"{name}-{text.prompt_id}" if text.prompt_id.isdigit() else text.prompt_id
        prompts.setdefault(id_, Prompt(id=id_, dataset=name, text=text.prompt, reference=text.reference))
    return list(prompts.values())


def dataset_of(path: Path) -> str:
    """Return the dataset that a file's name begins with: the paper's name, or else the name itself."""
    known = dataset_named(path.stem.split("_")[0].split("-")[0])
    return known if known in ALIASES else path.stem
