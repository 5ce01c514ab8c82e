"""Request the texts of models behind servers. Each answer is saved before it is counted.

Only one request is open until the server has accepted a request. If the server refuses the seed or the name
of the token limit, later requests of the run leave the field out or rename it. A field from study.toml is
always sent. A run may be killed at any moment: the next run requests only missing texts, so only open
requests are paid twice.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation import PlannedText
from guard_eval.generation.plan import GenerationResult, Problems, list_missing_texts
from guard_eval.records import BILLION, Prompt
from guard_eval.reporting.escaping import escape_invisible_characters
from guard_eval.servers.answers import has_model_reasoned, read_answer, read_usage, remove_thinking, shorten
from guard_eval.servers.failures import (
    ATTEMPTS,
    LONGEST_WAIT_SECONDS,
    MOST_FAILURES,
    OF_THE_SERVER,
    RequestFailure,
)
from guard_eval.servers.price import REMEDY, Price, find_price, format_usd
from guard_eval.servers.server import Server, confirm_sending_keys, find_server_url, make_server
from guard_eval.servers.workers import Workers
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.systems import find_texts
from guard_eval.texts.systems.matching import SystemTexts
from guard_eval.texts.systems.served_files import (
    REQUESTS,
    SERVED,
    UNREADABLE,
    append_row,
    build_request,
    find_served_texts,
    hash_request,
    locate_served_file,
    read_total_cost,
    read_unreadable_answers,
)

Fields = dict[str, object]
"""The fields of a request or of a stored text."""
_LOOK_SECONDS = 0.02
"""The time between two checks whether the budget allows the next request, in seconds."""

ALIKE = 0.5
"""If more than this share of the texts of two systems are equal, the systems may be the same."""

_EXAMPLE_CHARACTERS = 600
_REMARKS = {
    "refused": "refusals, which are kept",
    "thought": "with thinking, which is cut out",
    "empty": "empty",
}
"""The words that describe special texts in the run's summary, such as "3 empty"."""


def request_texts(
    plans: Sequence[ServedPlan],
    problems: Problems,
    *,
    budget: float | None,
    send_key: set[tuple[str, str]],
) -> list[GenerationResult]:
    """Request the missing texts of models behind servers.

    If a server fails, the reason is added to `problems`, and texts from other servers are still requested.

    Raises:
        StudyError: No request can be sent: a price is unknown, a key is missing, or the cost needs a
            confirmation and there is no terminal.
    """
    waiting = [plan for plan in plans if plan.unrequested_texts]
    servers = _confirm_keys_and_cost(waiting, budget_usd=budget, send_key=send_key) if waiting else {}
    if servers is None:
        return [plan.make_result(0, ["no request was sent"]) for plan in plans]
    limit = math.inf if budget is None else int(budget * BILLION + 1e-3)
    study = plans[0].study
    account = Budget(limit=limit, spent=read_total_cost(study))
    results = []
    for plan in plans:
        if not plan.unrequested_texts:
            results.append(plan.make_result(0))
            continue
        name = plan.system.name
        with progress.show_task(name, total=len(plan.unrequested_texts), unit="texts") as advance:
            run = ServedRun(plan, servers[name], account, advance)
            try:
                asyncio.run(run.request_missing_texts())
            except StudyError as error:
                problems["\n  ".join([str(error), *run.describe_texts_and_failures()])] = [name]
        results.append(run.make_result())
    texts = find_texts(study, study.settings.systems, plans[0].prompts)
    alike = _warn_about_equal_systems(texts, set(servers))
    is_incomplete = any(result.missing for result in results)
    return [*results, GenerationResult(warnings=tuple(alike), exit_code=3 if is_incomplete else 0)]


@dataclass(frozen=True, kw_only=True)
class ServedPlan:
    """The existing and the missing texts of one served system.

    Attributes:
        study: The study.
        system: The system.
        prompts: The prompts to continue.
    """

    study: Study
    system: System
    prompts: Sequence[Prompt]

    @cached_property
    def existing_texts(self) -> SystemTexts:
        """The existing texts. Raise a `StudyError` if the file of texts cannot be used."""
        return find_served_texts(self.study, self.system, {prompt.id: prompt for prompt in self.prompts})

    @cached_property
    def missing_texts(self) -> list[PlannedText]:
        """The prompts and numbers of the texts that the server has not written yet."""
        return list_missing_texts(self.study, self.system.name, self.prompts, self.existing_texts)

    @cached_property
    def unrequested_texts(self) -> list[PlannedText]:
        """The missing texts whose requests have no stored answer. An answer without a text is paid, too."""
        answered = read_unreadable_answers(self.study, self.system)
        return [
            text
            for text in self.missing_texts
            if hash_request(self.study, self.system, *text) not in answered
        ]

    @cached_property
    def price(self) -> Price | None:
        """The price of the model's tokens, or None if the price is unknown."""
        served = self.system.served_model
        return find_price(served, find_server_url(served))

    def build_request_body(self, prompt: Prompt, text_number: int) -> Fields:
        """Return the body of the request for a text. `text_number` counts the prompt's texts: 1, 2, …."""
        return build_request(self.study, self.system, prompt, text_number)

    def compute_max_cost(self, body: Fields) -> int:
        """Return the highest possible cost of a request, in billionths of a dollar."""
        tokens = self.study.settings.generation.max_new_tokens
        return 0 if self.price is None else self.price.compute_max_cost(_encode_body(body), tokens)

    @property
    def max_total_cost(self) -> int:
        """The highest possible cost of all requests together, in billionths of a dollar."""
        return sum(self.compute_max_cost(self.build_request_body(*text)) for text in self.unrequested_texts)

    def describe_dry_run(self) -> GenerationResult:
        """Describe the requests, the server and the price. Show the beginning of the first request."""
        name = self.system.name
        served = self.system.served_model
        if not self.unrequested_texts:
            return self.make_result(0, [f"{name}: no request is needed"])
        price = "its price is unknown" if self.price is None else f"price: {self.price}"
        cost = "" if self.price is None else f" for at most {format_usd(self.max_total_cost / BILLION)}"
        count = f"{len(self.unrequested_texts)} requests to {served.base_url}, model {served.model}"
        example = escape_invisible_characters(
            json.dumps(self.build_request_body(*self.unrequested_texts[0]), ensure_ascii=False)
        )
        start = "  prompts are sent whole; the first request:"
        lines = [f"{name}: {count}{cost}; {price}", f"{start} {example[:_EXAMPLE_CHARACTERS]}"]
        return self.make_result(0, lines)

    def describe_unreadable_answers(self, count: int) -> str:
        """Say how many texts have an answer without a text, and how to request these texts again."""
        file = locate_served_file(self.study, self.system, UNREADABLE)
        return f"answers without a text: {count}; to request these texts again, delete {file}"

    def make_result(self, count: int, lines: Sequence[str] = (), *, unreadable: int = 0) -> GenerationResult:
        """Return the counts of texts after a run with new texts, and with new answers without a text."""
        name = self.system.name
        existing = len(self.existing_texts) + count
        missing = len(self.missing_texts) - count
        state_lines = [f"{name}: {existing} of {existing + missing} texts exist"]
        if unreadable := unreadable + len(self.missing_texts) - len(self.unrequested_texts):
            state_lines.append(f"  {self.describe_unreadable_answers(unreadable)}")
        return GenerationResult(existing={name: existing}, missing=missing, lines=(*state_lines, *lines))


def _encode_body(body: Fields) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(kw_only=True)
class Budget:
    """The cost of the requests of all runs and its limit, in billionths of a dollar.

    Attributes:
        limit: The highest cost that is allowed, or infinity.
        spent: The cost of all answers, plus the highest possible cost of open and lost requests.
        under_way: The part of `spent` that is reserved for requests without an answer yet.
    """

    limit: float
    spent: int
    under_way: int = 0

    def reserve(self, cost: int) -> bool:
        """Reserve the highest possible cost of a request. Return false if open requests must finish first.

        Raises:
            StudyError: The cost exceeds the rest of the budget, and no request is open.
        """
        if self.spent + cost <= self.limit:
            self.spent += cost
            self.under_way += cost
            return True
        if self.under_way:
            return False
        raise StudyError(
            f"the budget of ${self.limit / BILLION:g} is used up: the next request can cost "
            f"${cost / BILLION:.4f}. All answers are saved. To continue, run the command again with a larger "
            "--budget"
        )

    def record_real_cost(self, reserved: int, cost: int) -> None:
        """Replace the amount that was reserved for a request by the real cost.

        Raises:
            StudyError: There is a limit, and the real cost is higher than the reserved amount.
        """
        self.spent += cost - reserved
        self.under_way -= reserved
        if cost > reserved and math.isfinite(self.limit):
            raise StudyError(
                f"an answer cost ${cost / BILLION:.4f}, but at most ${reserved / BILLION:.4f} was expected, "
                "because the server ignores the limit of tokens. No budget can be guaranteed with this "
                "server; run without --budget"
            )


def _confirm_keys_and_cost(
    plans: Sequence[ServedPlan], *, budget_usd: float | None, send_key: set[tuple[str, str]]
) -> dict[str, Server] | None:
    """Return each system's server, or None if the user does not allow the keys or the cost.

    With a budget, the user agrees to the cost. Without a budget, the user is asked at the terminal.

    Raises:
        StudyError: A price is unknown, a key is missing, or there is no terminal to ask.
    """
    import guard_eval.servers.client  # noqa: F401, PLC0415 (a missing extra is reported before any question)

    servers = {}
    for plan in plans:
        if plan.price is None or (budget_usd is not None and plan.price.assumed):
            raise StudyError(
                f"the price of {plan.system.served_model.model!r} of {plan.system.name!r} is unknown; "
                f"{REMEDY}"
            )
        servers[plan.system.name] = make_server(
            plan.system.served_model, plain_http={url for url, _ in send_key}
        )
    if not confirm_sending_keys(servers.values(), send_key):
        return None
    cost = sum(plan.max_total_cost for plan in plans)
    if not cost or budget_usd is not None:
        return servers
    count = sum(len(plan.unrequested_texts) for plan in plans)
    if not sys.stdin.isatty():
        raise StudyError(
            f"{count} requests can cost {format_usd(cost / BILLION)}, and there is no terminal to confirm "
            "the cost in; set a limit in US dollars: --budget USD"
        )
    question = f"Send {count:,} requests, for at most {format_usd(cost / BILLION)}?"
    return servers if progress.confirm(question) else None


class ServedRun:
    """A run that requests the missing texts of one system.

    Attributes:
        counts: The number of written texts, and the number of texts of each kind in `_REMARKS`.
        models: The names of the models in the server's answers.
        failures: The number of texts that were not written, by reason.
        cost: The cost of the answers, in billionths of a dollar.
    """

    def __init__(self, plan: ServedPlan, server: Server, budget: Budget, advance: progress.Advance) -> None:
        self.counts = Counter(written=0)
        self.models: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.cost = 0
        self._plan = plan
        self._server = server
        self._budget = budget
        self._advance = advance
        self._changes: set[str] = set()
        self._failed_in_a_row = 0
        self._workers = Workers(server, concurrency=plan.system.served_model.concurrency)

    def describe_texts_and_failures(self) -> list[str]:
        """Return one line about the written texts, and a line for each of the most common failures."""
        counts = self.counts
        remarks = [f"; {counts[kind]} {words}" for kind, words in _REMARKS.items() if counts[kind]]
        cost = f" for {format_usd(self.cost / BILLION)}" if self.cost else ""
        count = f"{counts['written']} of {len(self._plan.unrequested_texts)}"
        head = f"{self._plan.system.name}: {count} requested texts written{cost}{''.join(remarks)}"
        failures = self.failures.most_common(5)
        return [head, *(f"  {number} not written: {reason}" for reason, number in failures)]

    def make_result(self) -> GenerationResult:
        """Return the counts of texts, with lines to print and warnings."""
        name = self._plan.system.name
        written = self.counts["written"]
        return replace(
            self._plan.make_result(
                written, self.describe_texts_and_failures(), unreadable=self.counts["unreadable"]
            ),
            written={name: written},
            warnings=tuple(f"{name}: {warning}" for warning in self._yield_answer_warnings()),
        )

    def _yield_answer_warnings(self) -> Iterator[str]:
        """Warn if another model answered, or if more than a tenth of the texts are empty."""
        model = self._plan.system.served_model.model
        others = [name for name in self.models if model.casefold() not in name.casefold()]
        if others:
            yield (
                f"{', '.join(sorted(others))} answered, although {model} was requested; if these are "
                "different models, correct model or base_url in study.toml"
            )
        if self.counts["empty"] > self.counts["written"] / 10:
            yield (
                f"{self.counts['empty']} of {self.counts['written']} texts are empty; if the model thinks "
                "before it answers, raise generation.max_new_tokens"
            )

    async def request_missing_texts(self) -> None:
        """Request the missing texts, and save each answer. After Ctrl-C, answers to open requests are saved.

        Raises:
            StudyError: The server fails for a reason that only the user can fix. Earlier answers are saved.
        """
        from guard_eval.servers.client import Client  # noqa: PLC0415 (of an extra)

        concurrency = self._plan.system.served_model.concurrency
        queue = deque(self._plan.unrequested_texts)
        async with Client(self._server, concurrency=concurrency) as self._client:
            await self._workers.run([self._request_queued_texts(queue, stop_after_first=True)])
            size = min(concurrency, len(queue))
            await self._workers.run(self._request_queued_texts(queue) for _ in range(size))

    async def _request_queued_texts(
        self, queue: deque[PlannedText], *, stop_after_first: bool = False
    ) -> None:
        """Request the queued texts one after the other, or with `stop_after_first` until one is written."""
        while queue and not self._workers.is_stopped and not (stop_after_first and self.counts["written"]):
            self._count_failure(await self._request_text(*queue.popleft()))
            self._advance(1, note=f"{self.failures.total()} failed")

    def _count_failure(self, failure: RequestFailure | None) -> None:
        """Count a failed request. `failure` is None if the text was written.

        Raises:
            StudyError: The server failed too often in a row.
        """
        if failure is None:
            self._failed_in_a_row = 0
            return
        reason = f"{failure.kind} ({failure.detail})"
        self.failures[reason] += 1
        # before the first text, a rejection may have a cause other than the prompt
        is_first = failure.kind == "rejected" and not (self.counts["written"] or self._plan.existing_texts)
        self._failed_in_a_row += is_first or failure.kind in OF_THE_SERVER
        if self._failed_in_a_row >= MOST_FAILURES:
            unreadable = self.counts["unreadable"]
            more = f" ({self._plan.describe_unreadable_answers(unreadable)})" if unreadable else ""
            raise StudyError(
                f"the server failed {MOST_FAILURES} times in a row, last with {reason}. All answers are "
                f"saved{more}. Fix the server or the settings, then run the command again"
            )

    async def _request_text(self, prompt: Prompt, text_number: int) -> RequestFailure | None:
        """Request a text, again after a failure, until an answer is saved. Return the last failure, or None.

        Raises:
            StudyError: The server fails for a reason that only the user can fix.
        """
        failed: Counter[str] = Counter()
        while not self._workers.is_stopped:
            failure = await self._send_request_once(prompt, text_number)
            if failure is None:
                return None
            if self._omit_refused_field(failure):
                continue
            failed[failure.kind] += 1
            wait = failure.wait or 0.0
            if wait > LONGEST_WAIT_SECONDS:
                raise StudyError(
                    f"the server asks to wait {wait:.0f} seconds; run the command again after that"
                )
            if failure.too_slow or failed[failure.kind] >= ATTEMPTS.get(failure.kind, 1):
                if failure.fatal is not None:
                    raise StudyError(failure.fatal)
                return failure
            await self._workers.back_off(failed.total(), wait)
        return None

    def _omit_refused_field(self, failure: RequestFailure) -> bool:
        """Change later requests if the server refuses a field. Return whether to send the request again.

        Raises:
            StudyError: The server refuses a field from study.toml.
        """
        if failure.change == "temperature" and self._plan.system.temperature is not None:
            raise StudyError(
                f"the server does not take a temperature ({failure.detail}); remove temperature in study.toml"
            )
        change = "seed" if failure.change == "guess" and "seed" not in self._changes else failure.change
        if change not in {"seed", "limit"}:
            return False
        is_new = change not in self._changes
        self._changes.add(change)
        return is_new

    def _build_accepted_body(self, prompt: Prompt, text_number: int) -> Fields:
        """Return the body of a request, without the fields that the server has refused."""
        body = self._plan.build_request_body(prompt, text_number)
        if "seed" in self._changes:
            del body["seed"]
        if "limit" in self._changes:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body

    async def _send_request_once(self, prompt: Prompt, text_number: int) -> RequestFailure | None:
        """Send a request once, and save the answer. Return the failure if there is no answer."""
        plan = self._plan
        path = "/chat/completions" if plan.system.chat else "/completions"
        async with self._workers.limiter as admitted_at:
            if self._workers.is_stopped:
                return None
            body = self._build_accepted_body(prompt, text_number)
            max_cost = plan.compute_max_cost(body)
            while not self._budget.reserve(max_cost):
                if not await self._workers.pause(_LOOK_SECONDS):
                    return None
            attempt = secrets.token_hex(8)
            if max_cost:
                append_row(plan.study, plan.system, REQUESTS, {"attempt": attempt, "cost": max_cost})
            began = time.monotonic()
            result = await self._workers.limiter.send(
                self._client.post(path, _encode_body(body)), admitted_at
            )
            if isinstance(result, bytes):
                facts = {
                    "id": prompt.id,
                    "number": text_number,
                    "seconds": round(time.monotonic() - began, 3),
                    "request": hash_request(plan.study, plan.system, prompt, text_number),
                }
                failure = await self._save_answer(facts, result)
                exact_cost = None if plan.price is None else plan.price.compute_cost(read_usage(result))
                cost = max_cost if exact_cost is None else exact_cost
                self.cost += cost
            else:
                failure, cost = result, max_cost if result.billed else 0
            if cost != max_cost:
                append_row(plan.study, plan.system, REQUESTS, {"attempt": attempt, "cost": cost})
            self._budget.record_real_cost(max_cost, cost)
            return failure

    async def _save_answer(self, facts: Fields, body: bytes) -> RequestFailure | None:
        """Save an answer as a line of a file. Return a failure if the answer has no text."""
        answer = read_answer(body)
        if answer is None:
            words = body.decode(errors="replace")
            # Without an answer or tokens, the model has not begun to write.
            if b'"choices"' in body or read_usage(body).output_tokens:
                await self._append_answer(UNREADABLE, {**facts, "answer": words})
                self.counts["unreadable"] += 1
            return RequestFailure(kind="unreadable", detail=f"no text: {shorten(words)}", billed=True)
        content = answer.text or answer.refusal or ""
        text = (remove_thinking(content) or "") if self._plan.system.chat else content
        usage = read_usage(body)
        row = {
            **facts,
            "text": text if text == content else text.lstrip(),
            "model": usage.model,
            "finish": "length" if answer.ended == "length" else "eos",
            "prompt_tokens": usage.input_tokens,
            "new_tokens": usage.output_tokens,
        }
        await self._append_answer(SERVED, row)
        self.counts.update(
            written=1,
            refused=answer.refusal is not None or answer.ended == "content_filter",
            thought=text != content or has_model_reasoned(body),
            empty=not text.strip(),
        )
        if usage.model:
            self.models.add(usage.model)
        return None

    async def _append_answer(self, ending: str, row: Fields) -> None:
        """Append a paid answer to a file. While the file cannot be written, try again for a minute."""

        async def append() -> None:
            append_row(self._plan.study, self._plan.system, ending, row)

        await self._workers.store_paid_answer(append)


def _warn_about_equal_systems(texts: Mapping[str, SystemTexts], served_systems: set[str]) -> Iterator[str]:
    """Yield a warning for each served system that has the same texts as another system for most prompts."""
    for first, second in combinations(texts, 2):
        both = texts[first].keys() & texts[second].keys()
        equal = sum(texts[first][key].text == texts[second][key].text for key in both)
        if equal > ALIKE * len(both) and served_systems & {first, second}:
            yield (
                f"{first} and {second} wrote the same text for {equal} of {len(both)} prompts: if their "
                "requests differ in a field, the server may have ignored that field"
            )
