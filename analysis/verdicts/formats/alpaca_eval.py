"""AlpacaEval's annotations.json: one preference a record, from 1 (generator_1) to 2 (generator_2).

Source: tatsu-lab/alpaca_eval, `results/*/*/annotations.json` and `metrics/winrate.py`: 1.5, or 0 in older
files, is a draw, null a request that failed. The sides on which outputs were shown are not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from analysis.verdicts.files import Row, VerdictFile
from analysis.verdicts.formats.fields import is_missing, text_of
from guard_eval.errors import StudyError
from guard_eval.records import TIE, content_id


def read(file: VerdictFile, notes: list[str], _items: object) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each preference: below 1.5 generator_1, above it generator_2."""
    notes += ["AlpacaEval asks for the better output as a whole: the criterion is called 'overall'"]
    is_continuous = False
    for index, record in file.records():
        where = file.at(index)
        a, b = (text_of(record.get(key), where, key) for key in ("generator_1", "generator_2"))
        preference = _preference(record.get("preference"), where)
        if preference is None:
            yield index, "no preference, the annotator failed"
            continue
        instruction = str(record.get("instruction"))
        outputs = [record.get(key) for key in ("output_1", "output_2")]
        lengths = [str(len(text)) if isinstance(text, str) else None for text in outputs]
        rater = record.get("annotator")
        row = {
            "pair_id": content_id(instruction, *outputs),
            "dataset": text_of(record.get("dataset") or "alpaca_eval", where, "dataset"),
            "prompt_id": content_id(instruction),
            "method_a": a,
            "method_b": b,
            "rater": text_of(rater, where, "annotator"),
            "rater_kind": "model" if isinstance(rater, str) and not rater.isdecimal() else "person",
            "criterion": "overall",
            "verdict": TIE if preference == 1.5 else (a if preference < 1.5 else b),
            "preference_a": repr(round(2 - preference, 12)),
            "preference_b": repr(round(preference - 1, 12)),
            "length_a": lengths[0],
            "length_b": lengths[1],
        }
        yield index, row
        is_continuous |= preference not in {1.0, 1.5, 2.0}
    if is_continuous:
        notes.append(
            "preferences are continuous, and a verdict says only which side of 1.5 they lie on (AlpacaEval's "
            "own win rate is the mean of the column preference_b, which has them)"
        )


def _preference(value: object, where: str) -> float | None:
    if is_missing(value) or (isinstance(value, str) and value.strip().casefold() in {"", "nan", "none"}):
        return None
    try:
        preference = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        preference = math.nan
    if preference == 0:
        return 1.5
    if not 1 <= preference <= 2:
        raise StudyError(
            f"{where}: preference is {str(value)[:40]!r}; write a number from 1 (generator_1) to 2 "
            "(generator_2), 1.5 for a draw, or null where the annotator failed"
        )
    return preference
