"""Gold pairs: pairs whose better text is known. They show whether a rater reads the texts."""

from __future__ import annotations

from collections.abc import Sequence

from guard_eval.errors import StudyError
from guard_eval.records import Gold, Pair, clean_for_raters, make_content_id
from guard_eval.study.criteria_settings import StudyFile
from guard_eval.texts.rows import Record, read_json_lines

BETTER = "gold: better"
WORSE = "gold: worse"
"""Used as a method name in gold pairs. Raters never see method names."""


def read_gold(file: StudyFile, *, criteria: Sequence[str]) -> list[Gold]:
    """Return the gold pairs of a file, in the file's order.

    A line is a JSON object with "prompt", "better" and "worse". It also has "criteria" if the answer is clear
    only on some criteria.

    Args:
        file: The file that `annotation.gold` names.
        criteria: The criteria that people rate.

    Raises:
        StudyError: A line is wrong. The message names the line.
    """
    name = f"annotation.gold: {file.file}"
    return [_read_pair(record, criteria) for record in read_json_lines(name, file.text)]


def _read_pair(record: Record, criteria: Sequence[str]) -> Gold:
    """Return the gold pair of a line. The first method's text is the better one."""
    row = record.row
    where = record.where
    prompt, better, worse = texts = [str(row.get(key) or "") for key in ("prompt", "better", "worse")]
    if not all(map(clean_for_raters, texts)):
        raise StudyError(f'{where} needs "prompt", "better" and "worse", each a text')
    if clean_for_raters(better) == clean_for_raters(worse):
        raise StudyError(
            f'{where}: "better" and "worse" are the same text, as raters see it; write one that is worse'
        )
    clear = row.get("criteria", list(criteria))
    if not isinstance(clear, list) or not clear or not all(name in criteria for name in clear):
        raise StudyError(
            f'{where}: "criteria" names {clear!r}; write some of the study\'s: {", ".join(criteria)}'
        )
    ids = make_content_id("gold", prompt, better), make_content_id("gold", prompt, worse)
    pair = Pair(
        id=Pair.make_id(BETTER, WORSE, *ids),
        dataset="gold",
        prompt_id=make_content_id("gold", prompt),
        prompt=prompt,
        method_a=BETTER,
        method_b=WORSE,
        continuation_a=ids[0],
        continuation_b=ids[1],
        text_a=better,
        text_b=worse,
        position=record.number - 1,
    )
    return Gold(pair=pair, expected=dict.fromkeys(clear, "a"))
