"""Exchanges as a reader wants them: requests in parts, answers in words, verdicts by text and not by letter.

Which text of a pair is called Text 1 is drawn for each pair, unless the methods are named anyway: where all
pairs compare the same two methods, the study's own order would reveal which is which.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from guard_eval.errors import StudyError
from guard_eval.records import TIE, Pair, content_id
from guard_eval.store import Attempt, Exchange, Showing, Store
from guard_eval.study.settings import Judge
from judge.failures import JudgeError
from judge.providers.envelopes import load, read_response
from judge.providers.thinking import without_thinking
from judge.rater import rater_name
from judge.request import RequestBuilder

TextNumber = Literal["1", "2", "tie"]
"""Which text of a pair is better, whatever the letter it was shown under."""

MESSAGES = ("system", "systemInstruction", "system_instruction", "messages", "input", "contents")
"""The fields of a request that hold words, in the dialects of all providers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadAttempt:
    """One request and what came of it, in words.

    Attributes:
        source: As the store has it.
        settings: What the request says besides words, by name.
        messages: The words, by role; the whole request where it is no JSON that holds any.
        answer: What the model wrote, without its thinking; None where no answer came or none can be read.
        reasoning: Its thinking, where the server gives it; several parts are paragraphs.
        verdict: What is read from the answer, by criterion; empty where that fails.
        problem: Why nothing is read from it, where something came.
    """

    source: Attempt
    settings: Mapping[str, object]
    messages: tuple[tuple[str, str], ...]
    answer: str | None
    reasoning: str | None
    verdict: Mapping[str, str]
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadExchange:
    """One order of a pair as a judge saw it.

    Attributes:
        source: As the store has it.
        first: Which text stood first, as A.
        attempts: Its requests, oldest first.
        better: The current verdict by criterion.
    """

    source: Exchange
    first: Literal["1", "2"]
    attempts: tuple[ReadAttempt, ...]
    better: Mapping[str, TextNumber]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A pair before one judge: one sample, in both orders or in one.

    Attributes:
        pair: The pair, with its names.
        texts: Text 1 and Text 2.
        methods: The methods that wrote them, in the same order: for a reader who asks for them.
        judge: The judge's name.
        sample: 0, 1, …
        orders: What it was shown, Text 1 as A before Text 2 as A.
        people: How many people preferred each text, by criterion.
    """

    pair: Pair
    texts: tuple[str, str]
    methods: tuple[str, str]
    judge: str
    sample: int
    orders: tuple[ReadExchange, ...]
    people: Mapping[str, Mapping[TextNumber, int]]


def read_comparisons(
    store: Store,
    judges: Iterable[Judge],
    *,
    seed: int,
    pair_id: str | None = None,
    only: str | None = None,
    unblind: bool = False,
) -> Iterator[Comparison]:
    """Yield what the judges were shown and answered, by pair, judge and sample; nothing is sent.

    Args:
        store: The study's database.
        judges: The study's judges, by whose settings answers are read; of others the verdicts are known.
        seed: The study's seed.
        pair_id: Only of this pair.
        only: Only of the judge of this name.
        unblind: Whether Text 1 may be the one of the comparison's first method throughout.
    """
    pairs = {pair.id: pair for pair in store.pairs()}
    builders = {rater_name(judge): RequestBuilder(judge, seed=seed) for judge in judges}
    people = _people(store)
    found = store.exchanges(pair_id=pair_id, judge=only)
    for (where, judge), group in groupby(found, key=lambda each: (each.pair_id, each.rater)):
        pair = pairs[where]
        swapped = not unblind and int(content_id(seed, "view", pair.id), 16) % 2 == 1
        texts, methods = (pair.text_a, pair.text_b), (pair.method_a, pair.method_b)
        samples: dict[int, list[ReadExchange]] = defaultdict(list)
        for exchange in group:
            samples[exchange.sample].append(_read(exchange, builders.get(judge), swapped=swapped))
        for sample, orders in sorted(samples.items()):
            yield Comparison(
                pair=pair,
                texts=texts[::-1] if swapped else texts,
                methods=methods[::-1] if swapped else methods,
                judge=judge,
                sample=sample,
                orders=tuple(sorted(orders, key=lambda each: each.first)),
                people={
                    criterion: {_number(side, swapped=swapped): count for side, count in counts.items()}
                    for criterion, counts in people.get(pair.id, {}).items()
                },
            )


def find_pair(store: Store, name: str) -> Pair:
    """Return the pair of that id, or of the one id that begins so.

    Raises:
        StudyError: There is none, or several.
    """
    found = [pair for pair in store.pairs() if pair.id.startswith(name)] if name else []
    if len(found) == 1:
        return found[0]
    exact = [pair for pair in found if pair.id == name]
    if exact:
        return exact[0]
    if found:
        some = ", ".join(pair.id for pair in found[:3])
        raise StudyError(f"{len(found)} pairs begin with {name!r} ({some}, …); give more of the id")
    raise StudyError(
        f"the study has no pair {name!r}; the ids are in the table that `guard-eval export` writes, and on "
        "the page of `guard-eval judge STUDY --view FILE.html`"
    )


def majority(counts: Mapping[TextNumber, int]) -> TextNumber | None:
    """Return what more people chose than anything else, or None.

    >>> majority({"1": 2, "2": 1}), majority({"1": 1, "tie": 1}), majority({})
    ('1', None, None)
    """
    ranked = Counter(counts).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def _people(store: Store) -> dict[str, dict[str, Counter[str]]]:
    """Return how often people preferred each side of a pair, by pair and criterion."""
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in store.tidy():
        if row.rater_kind == "person":
            side = TIE if row.verdict == TIE else "a" if row.verdict == row.method_a else "b"
            found[row.pair_id][row.criterion][side] += 1
    return found


def _number(side: str, *, swapped: bool) -> TextNumber:
    if side == TIE:
        return "tie"
    return "1" if (side == "a") != swapped else "2"


def _read(exchange: Exchange, builder: RequestBuilder | None, *, swapped: bool) -> ReadExchange:
    first = "1" if (exchange.order == "a") != swapped else "2"
    second = "2" if first == "1" else "1"
    by_letter: dict[str, TextNumber] = {"A": first, "B": second, "tie": "tie"}  # type: ignore[dict-item]
    showing = Showing(blind=exchange.blind, sample=exchange.sample)
    return ReadExchange(
        source=exchange,
        first=first,  # type: ignore[arg-type]
        attempts=tuple(_attempt(each, showing, builder) for each in exchange.attempts),
        better={criterion: by_letter[choice] for criterion, choice in exchange.choices.items()},
    )


def _attempt(attempt: Attempt, showing: Showing, builder: RequestBuilder | None) -> ReadAttempt:
    settings, messages = read_request(attempt.sent)
    answer = reasoning = problem = None
    verdict: Mapping[str, str] = {}
    if attempt.answer is not None:
        answer, reasoning = read_answer(attempt.answer.body)
        if builder is not None:
            outcome = builder.parse(showing, attempt.answer.body, shape=None)
            if isinstance(outcome, JudgeError):
                problem = f"{outcome.kind}: {outcome.detail}"
            else:
                verdict = outcome
    return ReadAttempt(
        source=attempt,
        settings=settings,
        messages=messages,
        answer=answer,
        reasoning=reasoning,
        verdict=verdict,
        problem=problem,
    )


def read_request(sent: bytes | None) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """Return a request's settings, and its words by role; all of it as words where it holds none.

    >>> read_request(b'{"model": "m", "system": "judge", "messages": [{"role": "user", "content": "A?"}]}')
    ({'model': 'm'}, (('system', 'judge'), ('user', 'A?')))
    """
    if sent is None:
        return {}, ()
    text = sent.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return {}, (("", text),)
    messages: list[tuple[str, str]] = []
    for name in MESSAGES:
        if name in body:
            held = body.pop(name)
            parts = held if isinstance(held, list) and name not in MESSAGES[:3] else [held]
            for part in parts:
                role = str(part.get("role") or "user") if isinstance(part, dict) else "user"
                messages.append(("system" if name in MESSAGES[:3] else role, words(part)))
    return body, tuple(messages)


def words(part: object, *, depth: int = 8) -> str:
    """Return the words of a message or of one of its parts, as deep as any provider puts them."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        part = [part.get(name) for name in ("content", "parts", "text")]
    if not isinstance(part, list) or not depth:
        return ""
    return "\n\n".join(filter(None, (words(each, depth=depth - 1) for each in part)))


def read_answer(body: bytes) -> tuple[str | None, str | None]:
    """Return what a model wrote, and its thinking where the server gives it, in a field or in the text."""
    read = read_response(body)
    written = None if read is None else read.refusal if read.content is None else read.content
    found = list(dict.fromkeys(_thoughts(load(body))))
    answer = None
    if isinstance(written, str):
        answer = without_thinking(written)
        thought = written if answer is None else written.rstrip().removesuffix(answer)
        found += [thought.strip()] if thought.strip() else []
    return answer, "\n\n".join(found) or None


def _thoughts(envelope: object) -> Iterator[str]:
    """Yield the thinking in an answer, in the fields that providers have for it."""
    if not isinstance(envelope, dict):
        return
    for choice in _dicts(envelope.get("choices")):
        yield from _of_message(choice.get("message"))
    for item in _dicts(envelope.get("output")):  # OpenAI's Responses
        if item.get("type") == "reasoning":
            yield from _filled(words(item.get("summary")), words(item.get("content")))
    for block in _dicts(envelope.get("content")):  # Anthropic
        yield from _filled(block.get("thinking"))
    for candidate in _dicts(envelope.get("candidates")):  # Gemini
        content = candidate.get("content")
        for part in _dicts(content.get("parts") if isinstance(content, dict) else None):
            if part.get("thought") is True:
                yield from _filled(part.get("text"))


def _of_message(message: object) -> Iterator[str]:
    if isinstance(message, dict):
        # vLLM, DeepSeek and llama.cpp write the first, OpenRouter and Ollama the second, Mistral the third
        yield from _filled(message.get("reasoning_content"), message.get("reasoning"))
        for part in _dicts(message.get("content")):
            yield from _filled(words(part.get("thinking")))


def _dicts(value: object) -> Sequence[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _filled(*values: object) -> Iterator[str]:
    for value in values:
        if isinstance(value, str) and value.strip():
            yield value.strip()
