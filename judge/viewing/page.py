"""Exchanges as one page that needs nothing else: open it in a browser, send it to a colleague.

The page holds an index, by which it filters and lists, and the exchanges themselves in compressed parts, each
read when one of its exchanges is opened: so a thousand of them take some megabytes and no time. All that is
foreign text reaches the page as JSON, compressed or its brackets escaped, and the screen as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import Escaped, one_line, visible
from guard_eval.reporting.rendering import render
from guard_eval.reporting.writing import write_whole
from guard_eval.rubric import CRITERIA
from guard_eval.store import Store
from guard_eval.study.settings import Judge
from judge.viewing.reading import (
    Comparison,
    ReadAttempt,
    ReadExchange,
    find_pair,
    majority,
    read_comparisons,
)
from judge.viewing.terminal import facts, raw

PART = 40
"""How many comparisons are in one compressed part: what opening one of them must unpack."""

_HERE = Path(__file__).parent
_MARKS = {"1": "1", "2": "2", "tie": "t"}
_EXCERPT = 110
_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewedPage:
    """What was written: how many comparisons and exchanges, and how many bytes."""

    comparisons: int
    exchanges: int
    size: int


def view(
    store: Store,
    judges: Iterable[Judge],
    path: Path,
    *,
    seed: int,
    pair: str | None = None,
    only: str | None = None,
    unblind: bool = False,
    title: str = "What the judges were asked and answered",
) -> ViewedPage:
    """Write the exchanges of a study with its judges as one HTML page, and return what it holds.

    Args:
        store: The study's database.
        judges: The study's judges.
        path: The file.
        seed: The study's seed.
        pair: Only the pair of this id, or of the one that begins so.
        only: Only the judge of this name.
        unblind: Whether the page names the methods; without it they are nowhere in the file.
        title: Its heading.

    Raises:
        StudyError: There is nothing to show, or the file cannot be written.
    """
    if path.is_dir():
        raise StudyError(f"{path} is a folder; name the file to write, such as {path / 'exchanges.html'}")
    judges = list(judges)
    pair_id = None if pair is None else find_pair(store, pair).id
    found = read_comparisons(store, judges, seed=seed, pair_id=pair_id, only=only, unblind=unblind)
    index = _Index(judges, unblind=unblind)
    parts = list(_parts(index, found))
    if not index.rows:
        raise StudyError("no judge has been asked anything yet; run guard-eval judge first")
    script = (_HERE / "view.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = render(
        _HERE / "view.html.j2",
        title=title,
        script=Escaped(script),
        digest=digest,
        own_style=Escaped((_HERE / "view.css").read_text(encoding="utf-8")),
        index=Escaped(_json(index.content)),
        parts=[Escaped(part) for part in parts],
        unblind=unblind,
        at=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
    )
    data = page.encode("utf-8", "replace")
    write_whole(path, data)
    return ViewedPage(comparisons=len(index.rows), exchanges=index.exchanges, size=len(data))


class _Index:
    """What the page lists and filters by; names stand once and are referred to by their places."""

    def __init__(self, judges: Iterable[Judge], *, unblind: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.exchanges = 0
        self._unblind = unblind
        self._names: dict[str, dict[str, int]] = {"judges": {}, "criteria": {}, "kinds": {}, "methods": {}}
        self._titles = {name: criterion.title for name, criterion in CRITERIA.items()}
        for judge in judges:
            for criterion in judge.rubric:
                self._place("criteria", criterion.name)
                self._titles[criterion.name] = criterion.title
        self._pairs: dict[str, int] = {}
        self._pair_rows: list[dict[str, Any]] = []

    @property
    def content(self) -> dict[str, Any]:
        """Return the index as it is in the page."""
        return {
            "judges": [one_line(name) for name in self._names["judges"]],
            "criteria": [[name, one_line(self._titles.get(name, name))] for name in self._names["criteria"]],
            "kinds": list(self._names["kinds"]),
            "methods": [one_line(name) for name in self._names["methods"]],
            "pairs": self._pair_rows,
            "rows": self.rows,
            "part": PART,
        }

    def add(self, comparison: Comparison) -> None:
        """Add a comparison; its place is the number of those before it."""
        self.exchanges += len(comparison.orders)
        for order in comparison.orders:
            for criterion in order.better:
                self._place("criteria", criterion)
        row: dict[str, Any] = {
            "p": self._pair(comparison),
            "j": self._place("judges", comparison.judge),
            "s": comparison.sample,
            "o": [self._order(order) for order in comparison.orders],
        }
        self.rows.append(row)

    def _order(self, order: ReadExchange) -> dict[str, Any]:
        marks = "".join(_MARKS.get(order.better.get(name, ""), "-") for name in self._names["criteria"])
        failure = order.source.failures[-1].kind if order.source.failures and not order.better else None
        return {
            "a": order.first,
            "v": marks,
            "f": -1 if failure is None else self._place("kinds", failure),
        }

    def _pair(self, comparison: Comparison) -> int:
        pair = comparison.pair
        if pair.id not in self._pairs:
            self._pairs[pair.id] = len(self._pairs)
            for criterion in comparison.people:
                self._place("criteria", criterion)
            people = {
                self._names["criteria"][criterion]: _MARKS[most]
                for criterion, counts in comparison.people.items()
                if (most := majority(counts)) is not None
            }
            row = {
                "id": pair.id,
                "d": one_line(pair.dataset),
                "q": one_line(pair.prompt_id),
                "x": one_line(pair.prompt)[:_EXCERPT],
                "h": people,
            }
            if self._unblind:
                row["m"] = [self._place("methods", method) for method in comparison.methods]
            self._pair_rows.append(row)
        return self._pairs[pair.id]

    def _place(self, kind: str, name: str) -> int:
        return self._names[kind].setdefault(name, len(self._names[kind]))


def _parts(index: _Index, comparisons: Iterator[Comparison]) -> Iterator[str]:
    """Yield the exchanges in compressed parts, in base 64, and add them to the index."""
    held: list[dict[str, Any]] = []
    for comparison in comparisons:
        index.add(comparison)
        held.append(_detail(comparison))
        if len(held) == PART:
            yield _packed(held)
            held = []
    if held:
        yield _packed(held)


def _packed(held: list[dict[str, Any]]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(held).encode(), 9)).decode("ascii")


def _detail(comparison: Comparison) -> dict[str, Any]:
    return {
        "prompt": _marked(comparison.pair.prompt),
        "texts": [_marked(text) for text in comparison.texts],
        "people": {name: dict(counts) for name, counts in comparison.people.items()},
        "orders": [
            {
                "presentation": order.source.presentation,
                "attempts": [_attempt(each) for each in order.attempts],
                "failures": [
                    {"at": f"{each.at:%Y-%m-%d %H:%M} UTC", "kind": each.kind, "detail": visible(each.detail)}
                    for each in order.source.failures
                ],
            }
            for order in comparison.orders
        ],
    }


def _attempt(attempt: ReadAttempt) -> Mapping[str, Any]:
    source = attempt.source
    settings = "\n".join(
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in attempt.settings.items()
    )
    return {
        "state": source.state,
        "facts": {name: visible(value) for name, value in facts(attempt).items()},
        "settings": visible(settings),
        "messages": [[role, visible(text)] for role, text in attempt.messages],
        "answer": attempt.answer and _marked(attempt.answer),
        "reasoning": attempt.reasoning and _marked(attempt.reasoning),
        "problem": attempt.problem and visible(attempt.problem),
        "raw": visible(raw(attempt)),
    }


def _marked(text: str) -> str:
    """Return a text with its controls written out, among them those that turn the direction of writing."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def _json(value: object) -> str:
    """Return JSON that may stand in a script element: nothing in it can end the element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
