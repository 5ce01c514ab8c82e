"""Arena-Hard's model_judgment/*.jsonl: a baseline against a model, judged in both orders.

Source: lmarena/arena-hard-auto, `gen_judgment.py` and `show_result.py`: A is the baseline in the first game
and the model in the second; a score of null is a judgment without a label. Version 0.1 names no baseline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analysis.verdicts.files import Row, VerdictFile
from analysis.verdicts.formats.fields import is_missing, text_of
from guard_eval.errors import StudyError
from guard_eval.records import TIE

_LABEL = re.compile(r"A(=|>>?|<<?)B|B(=|>>?|<<?)A")


def read(file: VerdictFile, notes: list[str], _items: object) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each game that has a label."""
    is_strong = is_unnamed = False
    for index, record in file.records():
        where = file.at(index)
        model, judge = (text_of(record.get(key), where, key) for key in ("model", "judge"))
        is_unnamed |= "baseline" not in record
        baseline = text_of(record.get("baseline", "baseline"), where, "baseline")
        name = text_of(record.get("question_id", record.get("uid")), where, "question_id or uid")
        row = {
            "pair_id": name,
            "dataset": text_of(record.get("category") or "arena-hard", where, "category"),
            "prompt_id": name,
            "method_a": baseline,
            "method_b": model,
            "rater": judge,
            "rater_kind": "model",
            "criterion": "overall",
        }
        games = record["games"] if isinstance(record.get("games"), list) else []
        if not 1 <= len(games) <= 2:
            raise StudyError(
                f"{where}: games has {len(games)} entries; a judgment has one game, or one in each order"
            )
        for number, game in enumerate(games, start=1):
            score = game.get("score") if isinstance(game, dict) else None
            if is_missing(score):
                yield index, "no label, the judge failed"
                continue
            first, second = (baseline, model) if number == 1 else (model, baseline)
            winner = _winner(score, first, second, f"{where}, game {number}")
            is_strong |= len(str(score)) == 4
            showing = {"presentation": str(number), "shown_first": first, "label": str(score)}
            yield index, row | showing | {"verdict": winner}
    notes.append("Arena-Hard asks for the better answer as a whole: the criterion is called 'overall'")
    if is_unnamed:
        notes.append("the file does not name the model that all were compared with: it is called 'baseline'")
    if is_strong:
        notes.append("A>>B counts as A>B does: a verdict has no strength (column label)")


def _winner(score: object, first: str, second: str, where: str) -> str:
    label = score.strip() if isinstance(score, str) else ""
    match = _LABEL.fullmatch(label)
    if match is None:
        raise StudyError(
            f"{where}: score is {str(score)[:40]!r}; write A>>B, A>B, A=B, B>A or B>>A, or null "
            "where there is none"
        )
    sign = (match[1] or match[2])[0]
    if sign == "=":
        return TIE
    return first if (label[0] == "A") == (sign == ">") else second
