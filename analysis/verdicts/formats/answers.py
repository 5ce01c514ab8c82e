"""What annotators answered, criterion by criterion, as verdicts; shared by the readers of their tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.verdicts.formats.rows import Row
from analysis.verdicts.formats.sides import WORDS, Item, is_missing
from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignAnswer:
    """One answer of one rater on one pair.

    Attributes:
        record: The record's number.
        item: What was compared.
        rater: The rater's name.
        criterion: The question's name.
        word: The answer.
        more: Further columns.
    """

    record: int
    item: Item
    rater: str
    criterion: str
    word: object
    more: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def verdict(self) -> str | None:
        """Return the method or the tie that was answered; None if the answer is something else."""
        return self.item.verdict(self.word.strip()) if isinstance(self.word, str) else None


def questions_of_verdicts(answers: Sequence[ForeignAnswer]) -> set[str]:
    """Return the questions to which some answer is a verdict: the others are comments or ratings."""
    return {answer.criterion for answer in answers if answer.verdict is not None}


def verdict_rows(answers: Sequence[ForeignAnswer], where: str, notes: list[str]) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each answer to a question of verdicts.

    Args:
        answers: All answers.
        where: The file, and what its records are counted by.
        notes: What a reader of the table must know; some are added.

    Raises:
        StudyError: An answer to such a question is no verdict.
    """
    asked = questions_of_verdicts(answers)
    if other := sorted({answer.criterion for answer in answers} - asked):
        notes.append(f"not read, since no answer is a verdict: {and_list(list(map(repr, other)))}")
    sides: dict[tuple[str, str], None] = {}
    for answer in answers:
        item, shown, verdict = answer.item, answer.item.shown_first, answer.verdict
        if answer.criterion not in asked:
            continue
        if is_missing(answer.word) or answer.word == "":
            yield answer.record, "no answer"
            continue
        if verdict is None:
            raise StudyError(
                f"{where} {answer.record}: {answer.criterion} is {str(answer.word)[:40]!r}; write "
                f"{item.first!r}, {item.second!r}, or {WORDS}"
            )
        if shown is None and answer.word not in {item.first, item.second} and verdict != TIE:
            sides[item.fields] = None
        showing = "" if item.known.get("showing") in {None, "1"} else f", {item.known['showing']}"
        known = {name: value for name, value in item.known.items() if name != "showing"}
        yield (
            answer.record,
            {
                "presentation": None if shown is None else f"{shown} first{showing}",
                **known,
                **answer.more,
                "rater": answer.rater,
                "criterion": answer.criterion,
                "verdict": verdict,
                "shown_first": shown,
            },
        )
    notes += [
        f"nothing says which text a rater saw on which side: A, or the left one, is taken for {first}, and "
        f"B, or the right one, for {second}"
        for first, second in sides
    ]
