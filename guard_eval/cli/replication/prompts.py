"""The prompts of a replication: from files as people have them, under the paper's names of its datasets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from guard_eval.cli.replication.paper import cases
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.generation_files import UNNAMED, read_generations
from guard_eval.texts.prompts import read_prompts

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
"""The folder that is looked into when none is named."""
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")
_PAPER = {"tab:case1": "Wikitext", "tab:case2": "Wikinews", "tab:case3": "BookCorpus"}


def dataset_named(name: str) -> str:
    """Return the paper's name of a dataset; one that it does not have keeps its own.

    >>> dataset_named("wikitext"), dataset_named("book"), dataset_named("tales")
    ('Wikitext', 'BookCorpus', 'tales')
    """
    plain = "".join(character for character in name.casefold() if character.isalnum())
    return next((paper for paper, names in ALIASES.items() if plain in names), name)


def files_of(named: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and those of the folders that are named.

    Raises:
        StudyError: A folder holds none.
    """
    found: list[Path] = []
    for path in named:
        inside = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES) if path.is_dir() else [path]
        if not inside:
            raise StudyError(f"the folder {path} holds no prompts ({', '.join(_SUFFIXES)}); {WHERE}")
        found += inside
    return found


def prompts_of(files: Iterable[Path], *, limit: int | None = None) -> list[Prompt]:
    """Return the prompts of files, the first `limit` of each dataset, whose names are the paper's.

    A file holds prompts as `guard-eval generate` takes them, or generations, with prompt and reference each.

    Raises:
        StudyError: A file cannot be read, or two prompts have one id.
    """
    kept: list[Prompt] = []
    count: Counter[str] = Counter()
    for path in files:
        for prompt in _read(path):
            one = replace(prompt, dataset=dataset_named(prompt.dataset))
            count[one.dataset] += 1
            if limit is None or count[one.dataset] <= limit:
                kept.append(one)
    ids = Counter(prompt.id for prompt in kept)
    twice = next((name for name, n in ids.items() if n > 1), None)
    if twice is not None:
        raise StudyError(f"two prompts have the id {twice!r}; name each file once, or change one")
    return kept


def _read(path: Path) -> list[Prompt]:
    if path.suffix == ".txt" or _has_prompts(path):
        return read_prompts(path)
    dataset = dataset_of(path)
    texts = read_generations(path, dataset=dataset)
    found: dict[str, Prompt] = {}
    for text in texts:
        if text.prompt is None:
            raise StudyError(f"{path} has texts without a prompt (the first: {text.prompt_id!r}); {WHERE}")
        mine = dataset if text.dataset == UNNAMED else text.dataset
        name = text.prompt_id if not text.prompt_id.isdigit() else f"{mine}-{text.prompt_id}"
        found.setdefault(name, Prompt(id=name, dataset=mine, text=text.prompt, reference=text.reference))
    return list(found.values())


def dataset_of(path: Path) -> str:
    """Return the dataset that a file's name begins with: the paper's name, or else its stem."""
    begin = path.stem.split("_")[0].split("-")[0]
    known = dataset_named(begin)
    return known if known in ALIASES else path.stem


def _has_prompts(path: Path) -> bool:
    """Say whether the first line of a JSONL file is a prompt and not a generation."""
    if path.suffix != ".jsonl":
        return False
    try:
        with path.open(encoding="utf-8") as stream:
            row = json.loads(stream.readline() or "null")
    except (OSError, ValueError):
        return True  # read_prompts says what is wrong with it
    return isinstance(row, dict) and "prompt" in row and not {"text", "gen_text"} & set(row)


def case_prompts() -> list[Prompt]:
    """Return the prompts of the paper's case studies with their references."""
    return [
        Prompt(
            id=label.removeprefix("tab:"),
            dataset=_PAPER[label],
            text=texts["Prompt"],
            reference=f" {texts['Reference']}",
        )
        for label, texts in cases().items()
        if label in _PAPER
    ]


def entropy_prompt() -> list[Prompt]:
    """Return the prompt under `fig:decoding_behavior`."""
    texts = cases()["fig:decoding_behavior"]
    return [Prompt(id="figure", dataset="BookCorpus", text=texts["Prompt"], reference=f" {texts['GUARD']}")]


def lines_of(prompts: Iterable[Prompt]) -> str:
    """Return prompts as the lines of a prompts.jsonl."""
    rows = ({"id": p.id, "dataset": p.dataset, "prompt": p.text, "reference": p.reference} for p in prompts)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
