"""FastChat's MT-Bench judgments in both orders, and its votes: MT-Bench's human ones, Chatbot Arena's.

Source: lm-sys/FastChat, `llm_judge/common.py` (`play_a_match_pair`): winners are model_1, model_2, tie or
error, in the second game the sides already changed back; answers graded singly (m1_score) were shown in no
order. Votes: the data sets lmsys/mt_bench_human_judgments and lmsys/chatbot_arena_conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from analysis.verdicts.formats.records import Record, Source
from analysis.verdicts.formats.rows import Row
from analysis.verdicts.formats.sides import Item, is_missing, text_of
from guard_eval.errors import StudyError
from guard_eval.records import TIE

NAME = "fastchat"
WHAT = "FastChat judgments or votes (MT-Bench, Chatbot Arena)"

_TIES = {"tie", "tie (bothbad)", "tie (inconsistent)", "bothbad"}
_FAILED = {"error", "parse error"}
_PERSON = re.compile(r"(expert|author|arena_user|human|annotator)\b|(expert|author|arena_user)_\d+")
_MODEL = re.compile(r"(gpt|claude|llama|gemini|qwen).*|.*_(pair|single)")
_ONE_ID = "question_id"


def claims(record: Record) -> bool:
    """Return whether a record is of this format."""
    return {_ONE_ID, "judge"} <= record.keys() and (_is_judgment(record) or _is_vote(record))


def read(source: Source, notes: list[str], _items: Mapping[str, Item]) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each game, or each vote."""
    notes.append("FastChat asks for the better answer as a whole: the criterion is called 'overall'")
    bad = inconsistent = 0
    for index, record in source.records():
        where = source.at(index)
        a_key, b_key = ("model_1", "model_2") if _is_judgment(record) else ("model_a", "model_b")
        a, b = (text_of(record.get(key), where, key) for key in (a_key, b_key))
        judge = record.get("judge")
        rater = text_of(judge[0] if isinstance(judge, list) and judge else judge, where, "judge")
        question, turn = text_of(record.get(_ONE_ID), where, _ONE_ID), record.get("turn")
        number = None if is_missing(turn) else text_of(turn, where, "turn")
        common = {
            "pair_id": question if number is None else f"{question}, turn {number}",
            "dataset": "all",
            "prompt_id": question,
            "method_a": a,
            "method_b": b,
            "rater": rater,
            "rater_kind": _kind(rater, judgment=_is_judgment(record)),
            "criterion": "overall",
            "turn": number,
        }
        for showing, first, winner in _games(record, a, b):
            label = str(winner).strip().casefold()
            bad, inconsistent = bad + ("bad" in label), inconsistent + ("inconsistent" in label)
            if is_missing(winner) or label in _FAILED:
                yield index, "no winner, the judge failed"
                continue
            verdict = {a_key: a, b_key: b, **dict.fromkeys(_TIES, TIE)}.get(label)
            if verdict is None:
                raise StudyError(
                    f"{where}: the winner is {str(winner)[:40]!r}; write {a_key}, {b_key}, tie or error"
                )
            yield index, common | {"verdict": verdict, "presentation": showing, "shown_first": first}
    if bad:
        notes.append(f"{bad} of 'tie (bothbad)' count as ties")
    if inconsistent:
        notes.append(
            f"{inconsistent} of 'tie (inconsistent)', where the winner changed with the order, count as ties"
        )


def _is_judgment(record: Record) -> bool:
    return {"model_1", "model_2", "g1_winner", "g2_winner"} <= record.keys()


def _is_vote(record: Record) -> bool:
    return {"model_a", "model_b", "winner"} <= record.keys()


def _games(record: Record, a: str, b: str) -> list[tuple[str, str | None, object]]:
    """Return showing, method shown first and winner of each game of a record.

    A rater who voted on both orders of two models saw the pair twice; which side was which is not recorded.
    """
    if not _is_judgment(record):
        return [(f"{a} named first", None, record.get("winner"))]
    if "m1_score" in record:
        return [("1", None, record.get("g1_winner"))]
    return [("1", a, record.get("g1_winner")), ("2", b, record.get("g2_winner"))]


def _kind(rater: str, *, judgment: bool) -> str | None:
    """Return who judged: judgments are models'; what a vote's judge is not known to be stays open."""
    if judgment or _MODEL.fullmatch(rater.casefold()):
        return "model"
    return "person" if _PERSON.match(rater.casefold()) else None
