"""Which method a rater saw on which side, and which of them a word such as A or "Response 1" means."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.columns import NO, YES, Columns, is_missing_word, plain_heading
from analysis.verdicts.draft import METHODS, SHOWN, Draft
from analysis.verdicts.layout import distinct_rows, name_lines
from analysis.verdicts.words import TIED, A, B, Word, meaning
from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

_ABOUT_SIDES = re.compile(
    r".*(order|position|place|first|second|left|right|side|pos|swap|flip|revers|switch|random|shuffl|presented"
    r"|displayed|shown).*"
)
"""Headings of columns that may say where a text stood."""
_NAMES_FIRST = re.compile(
    r"(is)?(shown|presented|displayed|seen)?(first|left)(shown|presented|displayed|seen)?(model|method|system"
    r"|strategy|response|text|name)*|(model|method|system|strategy)(shown|on|presented|displayed)*(first|left)"
)
"""Headings of a column that names the method shown first."""
_ORDER = re.compile(r".*(order|sides|positions|layout)")
_NOUN = "(method|model|system|strategy|response|text|option|answer)?"
_PLACE = r"{0}s?(position|place|side|pos|order)|(position|place|side|pos)(of)?{0}"
_IS_FIRST = r"(is)?{0}(is|was|on|shown|the|presented|displayed)*(left|first)"
_PLACES = {"1": A, "first": A, "left": A, "2": B, "second": B, "right": B}
_STRAIGHT = NO | {"none", "nan", "original", ""}
"""Cells that say that sides did not change."""
_SWAPS = re.compile(r".*(swap|flip|revers|switch).*")
_LISTED = 12
"""Words that are listed."""


def _first_of(heading: str, cell: str, a: str, b: str) -> int | None:
    """Return which of two methods was shown first, as a cell under a heading says; None if it does not."""
    word = cell.strip().casefold()
    if _NAMES_FIRST.fullmatch(heading):
        return {"a": A, "b": B, a: A, b: B}.get(cell, {"a": A, "b": B}.get(word))
    if _ORDER.fullmatch(heading) and (letters := "".join(filter(str.isalpha, word))) in {"ab", "ba"}:
        return A if letters == "ab" else B
    for names, side in (
        (f"{_NOUN}[a1]|{re.escape(plain_heading(a))}", A),
        (f"{_NOUN}[b2]|{re.escape(plain_heading(b))}", B),
    ):
        if re.fullmatch(_PLACE.format(f"({names})"), heading) and word in _PLACES:
            return side * _PLACES[word]
        if re.fullmatch(_IS_FIRST.format(f"({names})"), heading) and word in YES | NO:
            return -side if word in NO else side
    return None


def read_first(columns: Columns, name: str) -> NDArray[np.int64] | None:
    """Return for each row which method was shown first, `A` or `B`; None if the column does not say it."""
    heading = plain_heading(name)
    if not _ABOUT_SIDES.fullmatch(heading) or not columns.is_filled(name):
        return None
    numbers, rows = distinct_rows(columns.texts(name, *METHODS), [name, *METHODS])
    sides = [_first_of(heading, *map(str, row)) for row in rows]
    return None if None in sides else np.array(sides, dtype=np.int64)[numbers]


class Answer(NamedTuple):
    """A verdict with the methods of its row; `word` is what it says if it names neither."""

    verdict: str | None
    a: str | None
    b: str | None
    left: str | None
    right: str | None
    word: Word | None


class Unblinder:
    """Replace the words of a draft's verdicts by methods.

    Args:
        draft: A draft with the columns verdict, method_a and method_b.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft, self.columns = draft, draft.columns
        self.by = SHOWN if draft.has(*SHOWN) else METHODS
        names = list(dict.fromkeys(("verdict", *METHODS, *self.by)))
        self.table = self.columns.texts(*names)
        self.numbers, rows = distinct_rows(self.table, names)
        self.answers = [
            Answer(
                verdict, a, b, sides[-2] if sides else a, sides[-1] if sides else b, self._word(verdict, a, b)
            )
            for verdict, a, b, *sides in rows
        ]
        kinds = [answer.word.kind if answer.word else "" for answer in self.answers]
        self.kinds = np.array(kinds, dtype=str)[self.numbers]

    def run(self) -> None:
        """Replace the words, and count the strength that is dropped.

        Raises:
            StudyError: A word can mean either method.
        """
        self._refuse_methods_called_as_sides()
        names = [name for name in ("shown_first", *self.draft.free()) if self.draft.has(name)]
        firsts = {name: sides for name in names if (sides := read_first(self.columns, name)) is not None}
        first = None
        if self.by == SHOWN:
            self._check_shown()
        else:
            self._check_letters(firsts)
            if (self.kinds == "place").any():
                first = self._first_of_places(firsts)
        verdicts = self._winners(first)
        self._explain(list(self.by) if first is None else list(firsts))
        new: dict[str, pd.Series] = {"verdict": verdicts}
        used: list[str] = []
        if not self.draft.has("shown_first"):
            if self.by == SHOWN:
                new["shown_first"] = self.table["left"]
            elif firsts and not (self.kinds == "letter").any():
                sides, *others = firsts.values()
                if all((other == sides).all() for other in others):
                    used = list(firsts)
                    a, b = (self.table[method].astype(object) for method in METHODS)
                    new["shown_first"] = a.where(sides == A, b)
                    self.draft.record("sides", ", ".join(used), "it says which text was first")
        self.draft.replace(self.draft.frame.drop(columns=used).assign(**new))

    def _word(self, verdict: str | None, a: str | None, b: str | None) -> Word | None:
        """Return what a verdict says if it is a word, and no method's own name."""
        if verdict is None or verdict.strip() in {a, b, TIE}:
            return None
        declared = self.draft.declared.words.get(verdict.strip())
        if declared is None:
            return meaning(verdict)
        return {"a": Word(A, "letter"), "b": Word(B, "letter")}.get(declared)

    def _rows(self, is_so: Callable[[Answer], bool]) -> NDArray[np.bool_]:
        """Return for each row whether something is so of its answer."""
        return np.array([is_so(answer) for answer in self.answers], dtype=bool)[self.numbers]

    def _refuse(self, is_wrong: Callable[[Answer], bool], message: str) -> None:
        wrong = self._rows(is_wrong)
        if wrong.any():
            answer = self.answers[int(self.numbers[wrong.argmax()])]
            raise StudyError(message.format(*answer, where=name_lines(wrong, self.table.index)))

    def _winners(self, first: NDArray[np.int64] | None) -> pd.Series:
        """Return the methods that won, or a tie; a missing verdict is empty."""

        def winner(answer: Answer, turn: int) -> str | None:
            word = answer.word
            if word is not None:
                a, b = (answer.a, answer.b) if word.kind == "column" else (answer.left, answer.right)
                return {A: a, B: b, TIED: TIE}[word.side * turn]
            text = (answer.verdict or "").strip()
            text = self.draft.declared.words.get(text, text)
            return text if text in {answer.a, answer.b} or not is_missing_word(text) else None

        straight, turned = (
            np.array([winner(answer, turn) for answer in self.answers], dtype=object)[self.numbers]
            for turn in (A, B)
        )
        is_turned = np.zeros(len(self.table), dtype=bool)
        if first is not None:
            is_turned = (self.kinds == "place") & (first == B)
        return pd.Series(np.where(is_turned, turned, straight), self.table.index)

    def _first_of_places(self, firsts: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return which method was on the first place, for verdicts that name places.

        Raises:
            StudyError: Nothing says it, or two columns contradict each other.
        """
        sided = self.kinds == "place"
        self._refuse_unclear(sided, [name for name in self.draft.free() if name not in firsts])
        if not firsts:
            words = {
                answer.verdict: answer.word
                for answer in self.answers
                if answer.word and answer.word.kind == "place"
            }
            offers = [f'verdicts."{text}"={"a" if word.side == A else "b"}' for text, word in words.items()]
            listed = and_list(list(map(repr, words)))
            settings = " ".join(f"--set {shlex.quote(offer)}" for offer in offers)
            raise StudyError(
                f"the verdicts {listed} name places, and no column says which method stood where. Add a "
                "column shown_first, or left and right, with the methods. If the first was always method_a: "
                f"{settings}"
            )
        (name, sides), *others = firsts.items()
        for other, theirs in others:
            if (wrong := sided & (sides != theirs)).any():
                raise StudyError(
                    f"the columns {name!r} and {other!r} contradict each other on who was first "
                    f"({name_lines(wrong, self.table.index)}); remove the one that is wrong"
                )
        return sides

    def _check_letters(self, firsts: dict[str, NDArray[np.int64]]) -> None:
        """Refuse letters, and columns' names, where another column may say that texts changed sides."""
        letters = self.kinds == "letter"
        for name, sides in firsts.items():
            self._refuse_changed(letters & (sides == B), name)
        free = self.draft.free()
        self._refuse_unclear(letters, [name for name in free if name not in firsts])
        swaps = [name for name in free if _SWAPS.fullmatch(plain_heading(name))]
        self._refuse_unclear(self.kinds == "column", swaps)

    def _refuse_unclear(self, sided: NDArray[np.bool_], names: Sequence[str]) -> None:
        for name in names if sided.any() else ():
            self._refuse_changed(self._may_have_changed(name, sided), name)

    def _refuse_changed(self, rows: NDArray[np.bool_], name: str) -> None:
        if rows.any():
            where = name_lines(rows, self.table.index)
            raise StudyError(
                f"the verdict on {where} is a side, and the column {name!r} may say that sides changed "
                "there; write the methods' names, or columns left and right with the methods as shown"
            )

    def _may_have_changed(self, name: str, sided: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the rows in which a column may say that texts changed sides, though it is not clear how.

        Its heading speaks of sides and it has one or two values, of which one is not "no"; or its cells are
        AB and BA; or it names one of the methods of each row, and not always the first or the winner.
        """
        cells = self.columns.texts(name)[name].astype(object)
        a, b = (self.table[method].astype(object) for method in METHODS)
        if ((cells == a) | (cells == b))[sided].all():
            is_winner = bool((cells == self._winners(None))[sided].all())
            return np.asarray(sided & (cells != a).to_numpy() & (not is_winner))
        words = cells.fillna("").str.strip().str.casefold()
        values = set(words[sided])
        is_order = {"".join(filter(str.isalnum, text)) for text in values} <= {"ab", "ba"}
        if len(values) > 2 or not (is_order or _ABOUT_SIDES.fullmatch(plain_heading(name))):
            return np.zeros_like(sided)
        return np.asarray(sided & ~words.isin(_STRAIGHT).to_numpy())

    def _refuse_methods_called_as_sides(self) -> None:
        """Refuse words where a method is called as a side is; beside left and right it may be called A."""
        said = {answer.word.kind for answer in self.answers if answer.word}
        called = {
            method: meaning(method) for answer in self.answers for method in answer[1:3] if method is not None
        }
        is_clear = self.by == SHOWN and said <= {"place", "tie"}
        odd = [name for name, word in called.items() if word and not (is_clear and word.kind == "letter")]
        if odd:
            self._refuse(
                lambda answer: answer.word is not None,
                f"the verdict {{0!r}} on {{where}} may name a side, or the method {odd[0]!r}; rename that",
            )

    def _check_shown(self) -> None:
        """Refuse words in rows whose sides are not the methods, or that may name a column or a side."""
        self._refuse(
            lambda answer: bool(answer.word and answer.a and answer.b and {*answer[1:3]} != {*answer[3:5]}),
            "left and right are not the row's methods on {where}; name the same",
        )
        self._refuse(
            lambda answer: bool(answer.word and answer.word.kind == "column" and answer.left != answer.a),
            "the verdict {0!r} on {where} may be the column's method, or that of the side; write the methods",
        )

    def _explain(self, columns: Sequence[str]) -> None:
        """Say which words were read by which columns, and count the strength that was dropped."""
        words = sorted({str(answer.verdict) for answer in self.answers if answer.word})
        if words:
            more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
            sided = set(self.kinds) - {"", "tie"}
            how = f"read by {and_list(columns)}" if sided else "read as ties"
            self.draft.record("_words", and_list(list(map(repr, words[:_LISTED]))) + more, how)
        if strong := int(self._rows(lambda answer: bool(answer.word and answer.word.strength)).sum()):
            self.draft.notes.append(f"the strength of {strong} verdicts, such as A>>B, is dropped")
