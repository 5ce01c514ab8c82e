"""The columns of prompts and of traced texts by whose values results are split."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import fmean

from guard_eval.errors import StudyError, suggest_nearest_word
from guard_eval.records import SPLITTING, Pair
from guard_eval.store import TidyRow
from guard_eval.study import Study
from guard_eval.texts.continuations import read_trace_means
from guard_eval.texts.prompts import read_prompt_columns

Cells = Mapping[str, Mapping[str, object]]
"""The values of each prompt or pair, by id and by column."""


def read_split_columns(
    study: Study, headings: Sequence[str], pairs: Sequence[Pair]
) -> dict[str, tuple[str, dict[str, object]]]:
    """Return the columns that verdicts do not have: `prompt_id` or `pair_id`, and the value of each id.

    Raises:
        StudyError: A column is unknown and cannot split results, or the prompts or traces cannot be read.
    """
    further = [name for name in dict.fromkeys(headings) if name not in SPLITTING]
    if not further:
        return {}
    sources: dict[str, Cells] = {
        "pair_id": average_traces_by_pair(read_trace_means(study.continuations_folder), pairs),
        "prompt_id": read_prompt_columns(study.prompts_path),
    }
    source_of = {name: key for key, cells in sources.items() for row in cells.values() for name in row}
    for field in fields(TidyRow):
        source_of.pop(field.name, None)
    columns = {}
    for name in further:
        if name not in source_of:
            folder = study.continuations_folder
            tracing = (
                f". To trace existing texts, move the files of {folder} away and run generate --trace, which "
                "writes the same texts"
            )
            raise StudyError(
                f"by {name}: no prompt and no trace has this column. If it describes prompts, write it "
                f"into each line of {study.prompts_path}, under a name that no column of the verdicts has"
                f"{tracing if folder.is_dir() else ''}; "
                f"{suggest_nearest_word(name, sorted({*SPLITTING, *source_of}))}"
            )
        key = source_of[name]
        columns[name] = key, {id_: row[name] for id_, row in sources[key].items() if name in row}
    return columns


def average_traces_by_pair(means_by_text: Mapping[str, Mapping[str, float]], pairs: Sequence[Pair]) -> Cells:
    """Return the mean traces of each pair, over one or both texts."""
    columns = {}
    for pair in pairs:
        texts = [
            means_by_text[id_] for id_ in (pair.continuation_a, pair.continuation_b) if id_ in means_by_text
        ]
        names = dict.fromkeys(name for text in texts for name in text)
        columns[pair.id] = {name: fmean(text[name] for text in texts if name in text) for name in names}
    return columns
