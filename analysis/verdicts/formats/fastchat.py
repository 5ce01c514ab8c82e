"""FastChat's MT-Bench judgments in both orders, and its votes: MT-Bench's human ones, Chatbot Arena's.

Source: lm-sys/FastChat, `llm_judge/common.py` (`play_a_match_pair`): winners are model_1, model_2, tie or
error, in the second game the sides already changed back; answers graded singly (m1_score) were shown in no
order. Votes: the data sets lmsys/mt_bench_human_judgments and lmsys/chatbot_arena_conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analysis.verdicts.files import Record, Row, VerdictFile
from analysis.verdicts.formats.fields import is_missing, text_of
from guard_eval.errors import StudyError
from guard_eval.records import TIE

_TIES = {"tie", "tie (bothbad)", "tie (inconsistent)", "bothbad"}
_FAILED = {"error", "parse error"}
_PERSON = re.compile(r"(expert|author|arena_user|human|annotator)\b|(expert|author|arena_user)_\d+")
_MODEL = re.compile(r"(gpt|claude|llama|gemini|qwen).*|.*_(pair|single)")


def read(file: VerdictFile, notes: list[str], _items: object) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each game, or each vote."""
    notes.append("FastChat asks for the better answer as a whole: the criterion is called 'overall'")
    bad = inconsistent = 0
    for index, record in file.records():
        where, is_judgment = file.at(index), "g1_winner" in record
        keys = ("model_1", "model_2") if is_judgment else ("model_a", "model_b")
        a, b = (text_of(record.get(key), where, key) for key in keys)
        judge = record.get("judge")
        rater = text_of(judge[0] if isinstance(judge, list) and judge else judge, where, "judge")
        question, turn = text_of(record.get("question_id"), where, "question_id"), record.get("turn")
        number = None if is_missing(turn) else text_of(turn, where, "turn")
        tag = record.get("dedup_tag")
        if str(record.get("anony")).casefold() == "false":
            yield index, "the models' names were shown"
            continue
        if isinstance(tag, dict) and tag.get("sampled") is False:
            yield index, "a repeated prompt, left out by the Arena (dedup_tag)"
            continue
        row = {
            "pair_id": question if number is None else f"{question}, turn {number}",
            "dataset": "all",
            "prompt_id": question,
            "method_a": a,
            "method_b": b,
            "rater": rater,
            "rater_kind": "model" if is_judgment else _voter_kind(rater.casefold()),
            "criterion": "overall",
            "turn": number,
        }
        for showing, first, winner in _games(record, a, b):
            label = str(winner).strip().casefold()
            bad, inconsistent = bad + ("bad" in label), inconsistent + ("inconsistent" in label)
            if is_missing(winner) or label in _FAILED:
                yield index, "no winner, the judge failed"
                continue
            verdict = {keys[0]: a, keys[1]: b, **dict.fromkeys(_TIES, TIE)}.get(label)
            if verdict is None:
                raise StudyError(
                    f"{where}: the winner is {str(winner)[:40]!r}; write {keys[0]}, {keys[1]}, tie or error"
                )
            yield index, row | {"verdict": verdict, "presentation": showing, "shown_first": first}
    if bad:
        notes.append(f"{bad} of 'tie (bothbad)' count as ties")
    if inconsistent:
        notes.append(
            f"{inconsistent} of 'tie (inconsistent)', where the winner changed with the order, count as ties"
        )


def _games(record: Record, a: str, b: str) -> list[tuple[str, str | None, object]]:
    """Return showing, method shown first and winner of each game of a record.

    A rater who voted on both orders of two models saw the pair twice; which side was which is not recorded.
    """
    if "g1_winner" not in record:
        return [(f"{a} named first", None, record.get("winner"))]
    if "m1_score" in record:
        return [("1", None, record.get("g1_winner"))]
    return [("1", a, record.get("g1_winner")), ("2", b, record.get("g2_winner"))]


def _voter_kind(rater: str) -> str | None:
    """Return the kind of the voter, if the record shows it."""
    if _MODEL.fullmatch(rater):
        return "model"
    return "person" if _PERSON.match(rater) else None
