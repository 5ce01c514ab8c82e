"""Read the prompts of a replication from files, and use the paper's names of datasets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.replication.paper import ALIASES, PROMPTS, PaperTable
from guard_eval.demo import PROMPTS as BUNDLED_PROMPTS
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.pairing import draw_prompts
from guard_eval.texts.prompts import read_prompts

WHERE = (
    "the paper's are those of Li et al. 2023 and are not shipped: the files wikitext_, wikinews_ and "
    "book_contrastive_gpt2-xl_256.jsonl under data_from_CD_repo/benchmarks in "
    "github.com/yxuansu/Contrastive_Search_versus_Contrastive_Decoding; --prompts reads them as they are"
)
"""The origin of the paper's prompts."""

USUAL = Path("prompts")
"""The folder that is read by default."""
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")


@functools.cache
def find_paper_dataset(name: str) -> str:
    """Return the paper's name of a dataset. A dataset that is not in the paper keeps its own name.

    >>> find_paper_dataset("wikitext"), find_paper_dataset("book"), find_paper_dataset("tales")
    ('Wikitext', 'BookCorpus', 'tales')
    """
    plain = "".join(filter(str.isalnum, name.casefold()))
    return next((paper for paper, names in ALIASES.items() if plain in names), name)


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
