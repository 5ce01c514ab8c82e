"""The exchanges of a study with its judges as one HTML page, which names no method.

Which text of a pair is called Text 1 is drawn for each pair: the study's own order would reveal which method
wrote it. All foreign text reaches the page escaped, with its control characters written out.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import TIE, Choice, Pair, content_id
from guard_eval.reporting.escaping import Escaped, visible
from guard_eval.reporting.rendering import render
from guard_eval.reporting.writing import write_whole
from guard_eval.store import Store, requests, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store.requests import Attempt
from guard_eval.study.judge_settings import Judge
from judge.answers import read_answer, read_thinking, without_thinking
from judge.forms import split_request
from judge.price import show_usd

_HERE = Path(__file__).parent
_PAIRS_AT_ONCE = 100

STATES = {
    "open": "not answered yet",
    "answered": "answered",
    "unbilled": "no answer, not billed",
    "lost": "no answer, perhaps billed",
}
"""What became of a request, in words."""


def write_page(
    store: Store, judges: Iterable[Judge], path: Path, *, seed: int, only: str | None = None
) -> int:
    """Write the exchanges of a study with its judges as one HTML page; return how many there are.

    Args:
        store: The study's database.
        judges: The study's judges.
        path: The file.
        seed: The study's seed.
        only: Only those with the judge of this name.

    Raises:
        StudyError: There is nothing to show, or the file cannot be written.
    """
    if path.is_dir():
        raise StudyError(f"{path} is a folder; name the file to write, such as {path / 'exchanges.html'}")
    titles = {each.name: each.title for judge in judges for each in judge.rubric}
    comparisons = list(read_comparisons(store, seed=seed, only=only))
    if not comparisons:
        raise StudyError("no judge has been asked anything yet; run guard-eval judge first")
    script = (_HERE / "view.js").read_text(encoding="utf-8")
    page = render(
        _HERE / "view.html.j2",
        title="What the judges were asked and answered",
        script=Escaped(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        own_style=Escaped((_HERE / "view.css").read_text(encoding="utf-8")),
        comparisons=comparisons,
        judges=sorted({each["judge"] for each in comparisons}),
        criteria={name: titles.get(name, name) for each in comparisons for name in each["criteria"]},
        kinds=sorted({kind for each in comparisons for kind in each["kinds"]}),
        at=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
    )
    write_whole(path, page.encode("utf-8", "replace"))
    return sum(len(each["orders"]) for each in comparisons)


def read_comparisons(store: Store, *, seed: int, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield what the judges were shown and answered: a pair before one judge in each sample, for the page."""
    pairs = {pair.id: pair for pair in store_pairs.read(store)}
    people = _read_people(store)
    ids = list(pairs)
    for start in range(0, len(ids), _PAIRS_AT_ONCE):
        part = ids[start : start + _PAIRS_AT_ONCE]
        with store.read() as db:
            attempts = requests.read_attempts(db, pair_ids=part, judge=only)
            choices = requests.read_choices(db, part)
        groups: dict[tuple[str, str, int], dict[int, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
        for each in sorted(attempts, key=lambda each: (pairs[each.question.pair_id].position, each.judge)):
            question = each.question
            groups[question.pair_id, each.judge, question.number // 2][question.number].append(each)
        for (pair_id, judge, sample), group in groups.items():
            orders = [
                (attempts, choices.get((judge, pair_id, number), {})) for number, attempts in group.items()
            ]
            yield _describe(pairs[pair_id], judge, sample, orders, people.get(pair_id, {}), seed=seed)


def _describe(
    pair: Pair,
    judge: str,
    sample: int,
    group: Sequence[tuple[Sequence[Attempt], Mapping[str, Choice]]],
    people: Mapping[str, Counter[str]],
    *,
    seed: int,
) -> dict[str, Any]:
    swapped = int(content_id(seed, "view", pair.id), 16) % 2 == 1
    numbers = {"a": "2" if swapped else "1", "b": "1" if swapped else "2", TIE: "tie"}
    orders = sorted((_describe_order(*each, numbers) for each in group), key=lambda each: each["first"])
    verdicts = [order["better"] for order in orders]
    criteria = list(dict.fromkeys(name for verdict in verdicts for name in verdict))
    flips = [name for name in criteria if len({verdict.get(name) for verdict in verdicts}) > 1]
    whole = len(verdicts) == 2 and all(verdicts)
    counts = {name: {numbers[side]: count for side, count in each.items()} for name, each in people.items()}
    texts = (pair.text_b, pair.text_a) if swapped else (pair.text_a, pair.text_b)
    return {
        "id": pair.id,
        "dataset": visible(pair.dataset),
        "prompt_id": visible(pair.prompt_id),
        "prompt": visible(pair.prompt),
        "texts": [visible(each) for each in texts],
        "judge": visible(judge),
        "sample": sample,
        "orders": orders,
        "criteria": criteria,
        "kinds": sorted({order["failure"] for order in orders if order["failure"]}),
        "flip": ("flip" if flips else "same") if whole else "one",
        "people": {
            name: ", ".join(f"{count} × {_name(side)}" for side, count in sorted(each.items()))
            for name, each in counts.items()
        },
    }  # fmt: skip


def _describe_order(
    attempts: Sequence[Attempt], choices: Mapping[str, Choice], numbers: Mapping[str, str]
) -> dict[str, Any]:
    first = numbers[attempts[0].question.first]
    letters = {"A": first, "B": "1" if first == "2" else "2", "tie": "tie"}
    return {
        "first": first,
        "better": {name: letters[choice] for name, choice in choices.items()},
        "verdict": "; ".join(
            f"{name}: {choice} ({_name(letters[choice])})" for name, choice in choices.items()
        ),
        "failure": None if choices else attempts[-1].failure,
        "attempts": [_describe_attempt(each) for each in attempts],
    }  # fmt: skip


def _describe_attempt(attempt: Attempt) -> dict[str, Any]:
    settings, messages = split_request(attempt.sent)
    facts = [STATES[attempt.state], f"{attempt.sent_at:%Y-%m-%d %H:%M:%S} UTC", attempt.form]
    answer = thinking = raw = None
    if attempt.response is not None:
        usage = attempt.usage
        facts.append(usage.model or "model not stated")
        facts.append(
            "tokens not stated"
            if usage.input_tokens is None
            else f"{usage.input_tokens:,} tokens in, {usage.output_tokens or 0:,} out"
        )
        result = read_answer(attempt.response)
        if result is not None:
            answer = result.refusal or (result.text and without_thinking(result.text))
        thinking = read_thinking(attempt.response)
        raw = attempt.response.decode("utf-8", "replace")
    if attempt.usd is not None:
        facts.append(show_usd(attempt.usd) + ("" if attempt.state == "answered" else " set aside"))
    problem = f"{attempt.failure}: {attempt.detail}" if attempt.failure else None
    words = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())
    return {
        "facts": visible(", ".join(facts)),
        "settings": visible(words),
        "messages": [(role, visible(text)) for role, text in messages],
        "answer": answer and visible(answer),
        "thinking": thinking and visible(thinking),
        "problem": problem and visible(problem),
        "raw": raw and visible(raw),
    }


def _read_people(store: Store) -> dict[str, dict[str, Counter[str]]]:
    """Return how often people preferred each side of a pair, by pair and criterion."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in unblind.tidy(store):
        if row.rater_kind == "person":
            side = TIE if row.verdict == TIE else "a" if row.verdict == row.method_a else "b"
            counts[row.pair_id][row.criterion][side] += 1
    return counts


def _name(number: str) -> str:
    return "tie" if number == "tie" else f"text {number}"
