"""What a data set holds of a study: verdicts without identities, the pairs, words on request, study.toml."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

from guard_eval.errors import StudyError
from guard_eval.records import Pair
from guard_eval.store import Store, TidyRow
from guard_eval.study.folder import Study
from judge.parsing import rationale
from judge.prompts.prompt import code

Words = Literal["comments", "rationales"]
"""What is published only where it is named."""
WORDS: tuple[Words, ...] = get_args(Words)

VERDICT_COLUMNS = {
    "pair_id": "The pair of continuations.",
    "dataset": "Where its prompt comes from.",
    "prompt_id": "Its prompt.",
    "method_a": "The first strategy of the comparison, whichever side its text was shown on.",
    "method_b": "The second strategy.",
    "rater": "Who judged: a model by its name, a person by a number without any other meaning.",
    "criterion": "The quality that was asked for.",
    "verdict": "The better strategy, or tie.",
    "rater_kind": "person, model, simulated or simulated_model; no statistic should pool them.",
    "presentation": "Rows with one number were answered together, on one showing of the pair.",
    "shown_first": "The strategy whose text was shown as A.",
    "position": "The letter that was chosen, A or B, or tie.",
    "length_a": "Length of the text of method_a in characters.",
    "length_b": "Length of the text of method_b in characters.",
}
PAIR_COLUMNS = {
    "pair_id": "The pair, as in the verdicts.",
    "dataset": "Where the prompt comes from.",
    "prompt_id": "The prompt, which pairs of several comparisons share.",
    "prompt": "What was to be continued.",
    "method_a": "The strategy that wrote text_a.",
    "method_b": "The strategy that wrote text_b.",
    "text_a": "The continuation by method_a.",
    "text_b": "The continuation by method_b.",
    "continuation_a": "A hash of text_a and all that made it.",
    "continuation_b": "A hash of text_b and all that made it.",
}
WORD_COLUMNS = {
    "presentation": "The showing, as in the verdicts.",
    "pair_id": "The pair, as in the verdicts.",
    "rater": "Who wrote it, as in the verdicts.",
    "text": "What was written.",
}
NUMBERS = frozenset({"presentation", "length_a", "length_b"})
"""Columns of whole numbers; the others are texts."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """The rows of a data set.

    Attributes:
        verdicts: Every verdict that counts; raters are numbered, moments and durations empty.
        pairs: The pairs that were judged.
        words: Comments and rationales, where they were asked for, as rows of `WORD_COLUMNS`.
    """

    verdicts: Sequence[TidyRow]
    pairs: Sequence[Pair]
    words: Mapping[Words, Sequence[Mapping[str, object]]] = field(default_factory=dict)


def published_rows(
    store: Store, rows: Sequence[TidyRow], include: Iterable[Words], *, seed: int
) -> Published:
    """Return what is published of `rows`, the verdicts of `store` that count; `seed` is the study's."""
    names = _pseudonyms(store, rows)
    pairs = {pair.id: pair for pair in store.pairs()}

    def place(row: TidyRow) -> tuple[object, ...]:
        return pairs[row.pair_id].position, row.pair_id, names[row.rater], row.shown_first, row.slot

    numbers: dict[int, int] = {}
    found = []
    for row in sorted(rows, key=lambda row: (*place(row), row.presentation, row.criterion)):
        number = numbers.setdefault(row.presentation, len(numbers) + 1)
        bare = replace(row, rater=names[row.rater], presentation=number)
        found.append(replace(bare, slot=0, at="", seconds=None, active_seconds=None))
    judged = {row.pair_id for row in rows}
    writers: dict[Words, Callable[[], Iterable[tuple[int, str]]]]
    writers = {"comments": partial(_comments, store), "rationales": partial(_rationales, store, seed)}
    by_number = {row.presentation: row for row in found}
    words = {
        kind: [
            {"presentation": number, "pair_id": of.pair_id, "rater": of.rater, "text": text}
            for number, text in sorted(
                (numbers[shown], text) for shown, text in writers[kind]() if shown in numbers
            )
            for of in [by_number[number]]
        ]
        for kind in WORDS
        if kind in include
    }
    return Published(
        verdicts=found, pairs=[pair for pair in pairs.values() if pair.id in judged], words=words
    )


def _pseudonyms(store: Store, rows: Sequence[TidyRow]) -> dict[str, str]:
    """Return what each rater is called: people by a number, all others as they are.

    The numbers follow the order of the verdicts themselves, never that of names, ids or arrival: a list of
    those reveals nothing beyond the verdicts. A hash of a name would not do, since a list of names can be
    hashed and compared.
    """
    own: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in rows:
        if row.rater_kind == "person":
            own[row.rater].append((row.pair_id, row.criterion, row.verdict, row.shown_first))
    known = [rater.name.casefold() for rater in store.raters()]
    prefix = "rater-"
    while any(name.startswith(prefix) for name in known):  # rater-3 would look like the person of that name
        prefix = f"x{prefix}"
    width = len(str(len(own)))
    numbered = enumerate(sorted(own, key=lambda name: sorted(own[name])), start=1)
    people = {name: f"{prefix}{number:0{width}}" for number, name in numbered}
    return {row.rater: people.get(row.rater, row.rater) for row in rows}


def _comments(store: Store) -> Iterable[tuple[int, str]]:
    last = {note.presentation: note.detail for note in store.notes(kind="comment")}
    return [(number, text) for number, text in last.items() if number is not None and text.strip()]


def _rationales(store: Store, seed: int) -> Iterable[tuple[int, str]]:
    for exchange in store.exchanges():
        answers = [attempt.answer for attempt in exchange.attempts if attempt.answer is not None]
        if not answers or not exchange.choices:
            continue
        if text := rationale(answers[-1].body, code=code(exchange.blind, seed)):
            yield exchange.blind.presentation, text


PRIVATE_SETTINGS = (
    ("database",),
    ("annotation", "recruitment", "codes"),
    ("annotation", "recruitment", "completion_url"),
    ("annotation", "recruitment", "prolific_study"),
)
"""Settings that are left out: none of them can change a result or the study's hash."""


def public_settings(study: Study) -> str:
    """Return study.toml with `PRIVATE_SETTINGS` as comments without values, its other lines as they are.

    Raises:
        StudyError: A setting cannot be taken out, line by line, without changing another.
    """
    text = (study.folder / "study.toml").read_text(encoding="utf-8-sig")
    wanted = deepcopy(tomllib.loads(text))
    removed = [".".join(path) for path in PRIVATE_SETTINGS if _remove(wanted, path)]
    if not removed:
        return text
    kept, table = [], ""
    for line in text.splitlines(keepends=True):
        if header := re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line):
            table = header[1]
        key = re.match(r"\s*([\w.-]+)\s*=", line)
        path = ".".join(filter(None, (table, key[1] if key else "")))
        private = any(path == name or path.startswith(f"{name}.") for name in removed)
        kept.append(f"# {path}: left out, as it changes no result\n" if private else line)
    public = "".join(kept)
    try:
        same = _without_empty(tomllib.loads(public)) == _without_empty(wanted)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise StudyError(
            f"{', '.join(removed)} in {study.folder / 'study.toml'} cannot be left out of what is published, "
            "as it does not stand on a line of its own; write it as KEY = VALUE below its table's name"
        )
    return public


def _remove(tables: dict[str, Any], path: Sequence[str]) -> bool:
    for name in path[:-1]:
        tables = tables.get(name, {})
    return tables.pop(path[-1], None) is not None


def _without_empty(value: Any) -> Any:  # noqa: ANN401 (whatever TOML holds)
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}
