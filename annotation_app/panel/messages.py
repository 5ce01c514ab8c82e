"""What goes to the panel in the browser, and what comes back.

What comes back is not trusted: `read` and `read_turn` take what has the right form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from annotation_app.wording import Problems, Wording
from guard_eval.records import CHOICES, BlindPair, Choice
from guard_eval.rubric import Criterion

Turn = Literal["back", "latest", "instructions"]
"""Where a rater can turn to without saving."""

PROBLEMS = tuple(Problems.model_fields)
"""What a rater can report of a pair, by the name under which it is stored."""

LONGEST_COMMENT = 5_000
"""Characters of a comment that are stored."""

LONGEST_SECONDS = 24 * 3600.0
"""The longest duration that is stored: a clock that measures more is wrong."""

_MOST_BREAKS = 100
_LONGEST_PRESS = 40
_TURNS: tuple[Turn, ...] = ("back", "latest", "instructions")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return `text` with what a browser would drop, or protobuf refuse, made visible.

    C0 controls become their Unicode pictures, C1 controls and lone surrogates U+FFFD; line ends become `\n`.

    >>> visible("a\x00b\r\nc\x1b[0m")
    'a␀b\nc␛[0m'
    """
    return _CONTROL.sub(_picture, text.replace("\r\n", "\n").replace("\r", "\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def constants(words: Wording) -> dict[str, object]:
    """Return what the browser is given once and not with every pair: the wording, in the study's language."""
    return {
        "words": words.panel.model_dump(by_alias=True),
        "reports": words.problems.model_dump(),
        "language": words.language,
        "direction": words.direction,
    }


@dataclass(frozen=True, kw_only=True)
class View:
    """What the panel shows.

    Attributes:
        pair: The texts, and the number under which the answers come back.
        where: The heading, such as `Pair 3 of 12`.
        done: How many pairs were rated before this one.
        total: How many there are to rate.
        criteria: The questions.
        place: The key of this rater's drafts in the browser; it does not identify the rater.
        turn: Another number in every run, so that the browser notices a repeated response.
        chosen: The answers given before.
        comment: The comment given before.
        problems: The problems reported before.
        back: Whether there is an earlier pair.
        earlier: Whether this is an earlier pair.
        skip: Whether the pair may be skipped.
        extras: Whether comments, breaks and the instructions are offered.
        note: What just happened, such as `Saved`.
        problem: Why the last attempt failed, if it did.
        acknowledged: The pair and the press whose answers are on disk: the browser forgets its draft.
        failed: The press whose answers could not be saved.
    """

    pair: BlindPair
    where: str
    done: int
    total: int
    criteria: tuple[Criterion, ...]
    place: str
    turn: int
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    comment: str = ""
    problems: tuple[str, ...] = ()
    back: bool = False
    earlier: bool = False
    skip: bool = False
    extras: bool = True
    note: str = ""
    problem: str = ""
    acknowledged: tuple[int, str] | None = None
    failed: str = ""

    def data(self) -> dict[str, object]:
        """Return what is sent to the browser: nothing of a pair but its number and its texts."""
        return {
            **vars(self),
            "pair": self.pair.presentation,
            "prompt": visible(self.pair.prompt),
            "a": visible(self.pair.text_a),
            "b": visible(self.pair.text_b),
            "criteria": [
                {"name": c.name, "title": c.title, "definition": c.definition} for c in self.criteria
            ],
            "chosen": dict(self.chosen),
            "comment": visible(self.comment),
        }


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a rater submitted.

    Attributes:
        pair: Under which number.
        press: The browser's name of this press of Save, which waits until it is acknowledged.
        choices: By criterion; not necessarily all of them.
        comment: None where it is as before.
        problems: Names of `PROBLEMS`; None where they are as before.
        seconds: How long the pair was on the screen, without breaks.
        active_seconds: How much of that the page was in focus and used within the last 30 s.
        breaks: How long each break was, in seconds.
    """

    pair: int
    press: str
    choices: dict[str, Choice]
    comment: str | None
    problems: tuple[str, ...] | None
    seconds: float | None
    active_seconds: float | None
    breaks: tuple[float, ...]


def read(value: object, criteria: tuple[Criterion, ...]) -> Submission | None:
    """Return what was submitted, or None for what no panel sends."""
    if not isinstance(value, dict):
        return None
    pair, press, choices = value.get("pair"), value.get("press"), value.get("choices")
    if type(pair) is not int or not isinstance(choices, dict):
        return None
    comment, problems, breaks = value.get("comment"), value.get("problems"), value.get("breaks")
    seconds, active = _duration(value.get("seconds")), _duration(value.get("active"))
    if seconds is not None and active is not None:
        active = min(active, seconds)
    durations = map(_duration, breaks[:_MOST_BREAKS] if isinstance(breaks, list) else ())
    return Submission(
        pair=pair,
        press=press[:_LONGEST_PRESS] if isinstance(press, str) else "",
        choices={c.name: choices[c.name] for c in criteria if choices.get(c.name) in CHOICES},
        comment=comment.strip()[:LONGEST_COMMENT] if isinstance(comment, str) else None,
        problems=tuple(p for p in PROBLEMS if p in problems) if isinstance(problems, list) else None,
        seconds=seconds,
        active_seconds=active,
        breaks=tuple(duration for duration in durations if duration is not None),
    )


def read_skip(value: object) -> tuple[int, tuple[str, ...], str] | None:
    """Return the pair skipped, what is wrong with it and a comment, or None for what no panel sends."""
    if not isinstance(value, dict):
        return None
    pair, problems, comment = value.get("pair"), value.get("problems"), value.get("comment")
    reasons = tuple(p for p in PROBLEMS if p in problems) if isinstance(problems, list) else ()
    if type(pair) is not int or not reasons:
        return None
    return pair, reasons, comment.strip()[:LONGEST_COMMENT] if isinstance(comment, str) else ""


def read_turn(value: object) -> tuple[int, Turn] | None:
    """Return the pair turned away from and where to, or None for what no panel sends."""
    if not isinstance(value, dict):
        return None
    pair, to = value.get("pair"), value.get("to")
    return (pair, to) if type(pair) is int and to in _TURNS else None


def _duration(value: object) -> float | None:
    """Return seconds as a browser measured them; None where its clock is broken."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is converted: JSON may hold an integer no float can be. NaN is not at least 0.
    return round(float(min(value, LONGEST_SECONDS)), 3) if value >= 0 else None
