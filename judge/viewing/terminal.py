"""Exchanges on the terminal, as plain text: nothing in a text can move the cursor or colour a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from guard_eval.reporting.escaping import visible
from guard_eval.store import Store
from guard_eval.study.settings import Judge
from judge.pricing.preview import usd
from judge.viewing.reading import Comparison, ReadAttempt, ReadExchange, find_pair, read_comparisons

STATES = {
    "open": "not answered yet",
    "answered": "answered",
    "released": "no answer, not billed",
    "lost": "no answer, perhaps billed",
}
"""What became of a request, in words."""


def show(
    store: Store,
    judges: Iterable[Judge],
    pair: str,
    *,
    seed: int,
    only: str | None = None,
    unblind: bool = False,
) -> str:
    """Return all requests to judges about a pair and their answers, as printable text.

    Args:
        store: The study's database.
        judges: The study's judges.
        pair: The pair's id, or its beginning.
        seed: The study's seed.
        only: Only the judge of this name.
        unblind: Whether to say which method wrote which text.

    Raises:
        StudyError: There is no such pair, or several.
    """
    wanted = find_pair(store, pair)
    judges = list(judges)
    found = read_comparisons(store, judges, seed=seed, pair_id=wanted.id, only=only, unblind=unblind)
    return visible("\n".join(_lines(wanted.id, list(found), unblind=unblind)))


def _lines(pair_id: str, comparisons: list[Comparison], *, unblind: bool) -> Iterator[str]:
    if not comparisons:
        yield f"pair {pair_id}: no judge has been asked about it"
        return
    first = comparisons[0]
    yield f"pair {pair_id} ({first.pair.dataset}, prompt {first.pair.prompt_id})"
    yield from _block("prompt", first.pair.prompt)
    for number, (text, method) in enumerate(zip(first.texts, first.methods, strict=True), start=1):
        yield from _block(f"text {number}" + (f", by {method}" if unblind else ""), text)
    for criterion, counts in first.people.items():
        named = ", ".join(f"{count} × {_named(number)}" for number, count in sorted(counts.items()))
        yield f"people on {criterion}: {named}"
    for comparison in comparisons:
        for order in comparison.orders:
            yield ""
            yield from _order(comparison, order)


def _order(comparison: Comparison, order: ReadExchange) -> Iterator[str]:
    source = order.source
    yield (
        f"=== {comparison.judge}: text {order.first} as A, text {'2' if order.first == '1' else '1'} as B; "
        f"sample {comparison.sample}, presentation {source.presentation}"
    )
    for attempt in order.attempts:
        yield from _attempt(attempt)
    if order.better:
        yield "--- verdict"
        for criterion, number in order.better.items():
            yield f"{criterion}: {source.choices[criterion]} ({_named(number)})"
    for failure in source.failures:
        yield f"--- failure at {failure.at:%Y-%m-%d %H:%M:%S} UTC: {failure.kind}: {failure.detail}"


def _attempt(attempt: ReadAttempt) -> Iterator[str]:
    source = attempt.source
    yield f"--- request {source.key[:12]}…, attempt {source.attempt}: " + ", ".join(facts(attempt).values())
    if source.sent is None:
        yield "(the request was not kept)"
    for name, value in attempt.settings.items():
        yield f"{name}: {json.dumps(value, ensure_ascii=False)}"
    for role, text in attempt.messages:
        yield from _block(role or "as sent", text)
    if attempt.reasoning is not None:
        yield from _block("reasoning", attempt.reasoning)
    if source.answer is not None:
        yield from _block(f"answer, HTTP {source.answer.status}, as it came", raw(attempt))
        if attempt.answer is not None:
            yield from _block("its text", attempt.answer)
    if attempt.verdict:
        yield "read as: " + ", ".join(f"{name} {choice}" for name, choice in attempt.verdict.items())
    if attempt.problem is not None:
        yield f"not read: {attempt.problem}"


def facts(attempt: ReadAttempt) -> Mapping[str, str]:
    """Return what is known of a request and its answer, in words, by name."""
    source = attempt.source
    found = {"state": STATES[source.state], "sent": f"{source.sent_at:%Y-%m-%d %H:%M:%S} UTC"}
    found |= {"way": source.style if source.shape is None else f"{source.style} ({source.shape})"}
    if source.answer is None:
        if source.reserved_usd is not None:
            found["price"] = f"{usd(source.reserved_usd)} set aside"
        return found
    answer, usage = source.answer, source.answer.usage
    found["time"] = f"{answer.seconds:.1f} s"
    found["model"] = usage.model or "model not stated"
    if usage.metered:
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        thought = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
        found["tokens"] = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}"
    else:
        found["tokens"] = "tokens not stated"
    found["price"] = "price unknown" if answer.usd is None else usd(answer.usd)
    return found


def raw(attempt: ReadAttempt) -> str:
    """Return an answer's bytes as text; what is no UTF-8 becomes U+FFFD."""
    answer = attempt.source.answer
    return "" if answer is None else answer.body.decode("utf-8", "replace")


def _named(number: str) -> str:
    return "tie" if number == "tie" else f"text {number}"


def _block(title: str, text: str) -> Iterator[str]:
    """Yield a text under its title, its lines set in, so that none of them passes for one of ours."""
    yield f"[{title}]"
    for line in text.split("\n"):
        yield f"    {line}"
