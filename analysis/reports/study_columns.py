"""Add columns for splitting a study's results, from the prompts and from the traces of the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import pandas as pd

from analysis.sections.results.by_column import SPLITTING
from guard_eval.errors import StudyError, suggest_nearest
from guard_eval.records import Pair
from guard_eval.study import Study
from guard_eval.texts.continuations import read_trace_means
from guard_eval.texts.prompts import read_prompt_columns

Cells = Mapping[str, Mapping[str, object]]
"""Values by the id of a prompt or pair, and by column."""


def add_split_columns(
    study: Study, table: pd.DataFrame, names: Sequence[str], pairs: Sequence[Pair]
) -> pd.DataFrame:
    """Add columns of the prompts or of the traces to the verdicts.

    Raises:
        StudyError: A column is unknown and cannot split results, or the prompts or traces cannot be read.
    """
    further = [name for name in dict.fromkeys(names) if name not in SPLITTING]
    if not further:
        return table
    sources: dict[str, Cells] = {
        "pair_id": average_traces_by_pair(read_trace_means(study.continuations), pairs),
        "prompt_id": read_prompt_columns(study.prompts_path),
    }
    source_of = {name: key for key, cells in sources.items() for row in cells.values() for name in row}
    source_of = {name: key for name, key in source_of.items() if name not in table.columns}
    for name in further:
        if name in table.columns:
            raise StudyError(
                f"--by {name}: this column of the verdicts cannot split results. If the prompts have "
                f"one of this name, rename it; {suggest_nearest(name, sorted({*SPLITTING, *source_of}))}"
            )
        if name not in source_of:
            raise StudyError(
                f"--by {name}: no prompt and no trace has this column. To trace existing texts, move the "
                f"files of {study.continuations} away and run generate --trace, which writes the same texts; "
                f"{suggest_nearest(name, sorted({*SPLITTING, *source_of}))}"
            )
        values = {id_: row[name] for id_, row in sources[source_of[name]].items() if name in row}
        table = table.assign(**{name: table[source_of[name]].astype(object).map(values)})
    return table


def average_traces_by_pair(means: Mapping[str, Mapping[str, float]], pairs: Sequence[Pair]) -> Cells:
    """Return the mean traces of each pair, over one or both texts."""
    columns = {}
    for pair in pairs:
        texts = [means[id_] for id_ in (pair.continuation_a, pair.continuation_b) if id_ in means]
        names = dict.fromkeys(name for text in texts for name in text)
        columns[pair.id] = {name: fmean(text[name] for text in texts if name in text) for name in names}
    return columns
