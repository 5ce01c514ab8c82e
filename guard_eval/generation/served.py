"""Request the texts of models behind servers: each answer is on disk before it is counted, and paid for once.

The first request goes alone, until the server has taken one. A part of a request that the server refuses by
name, and that is not in study.toml (the name of the token limit, the seed), is given up for the rest of the
run. A run may be killed at any moment: the next one requests only what has no answer, so at most what was
under way is paid twice.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import BILLION, Prompt
from guard_eval.reporting.escaping import visible
from guard_eval.servers.answers import read_answer, read_usage
from guard_eval.servers.failures import (
    ATTEMPTS,
    LONGEST_WAIT_SECONDS,
    MOST_FAILURES,
    OF_THE_SERVER,
    RequestFailure,
)
from guard_eval.servers.price import REMEDY, Price, find_price, show_usd
from guard_eval.servers.server import Server, connect_to, may_send_keys, server_url
from guard_eval.servers.thinking import has_reasoned, remove_thinking
from guard_eval.servers.workers import Workers
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.systems.matching import SystemTexts
from guard_eval.texts.systems.served_files import (
    append_attempt,
    append_served,
    build_request,
    find_served,
    hash_request,
    read_spent,
)

_LOOK_SECONDS = 0.02
"""Seconds between two looks whether an answer has made room in the budget."""

ALIKE = 0.5
"""Two systems whose texts to more than this share of the prompts are equal may be one."""

_EXAMPLE_CHARACTERS = 600


@dataclass(frozen=True, kw_only=True)
class ServedPlan:
    """The texts of one served system that are there, and those to be requested.

    Attributes:
        study: The study.
        system: The system.
        existing: The texts that exist.
        missing: The prompts, each with the number of its text, whose texts are missing.
        price: The price of the model's tokens; None if it is unknown.
    """

    study: Study
    system: System
    existing: SystemTexts
    missing: Sequence[tuple[Prompt, int]]
    price: Price | None

    @classmethod
    def of(cls, study: Study, system: System, prompts: Sequence[Prompt]) -> ServedPlan:
        """Find out what is missing, and what it costs.

        Raises:
            StudyError: The server's address or the file of texts cannot be used.
        """
        url = server_url(system.served)
        existing = find_served(study, system, {prompt.id: prompt for prompt in prompts})
        runs = range(1, study.settings.runs_of(system.name) + 1)
        missing = [(prompt, run) for prompt in prompts for run in runs if (prompt.id, run) not in existing]
        price = find_price(system.served, url)
        return cls(study=study, system=system, existing=existing, missing=missing, price=price)

    def body(self, prompt: Prompt, number: int) -> dict[str, Any]:
        """Return the body of a request."""
        return build_request(self.study, self.system, prompt, number)

    def max_cost(self, body: Mapping[str, Any]) -> int:
        """Return the most that a request can cost, in billionths of a dollar."""
        tokens = self.study.settings.generation.max_new_tokens
        return 0 if self.price is None else self.price.max_cost(_encode(body), tokens)

    @property
    def most(self) -> int:
        """The most that all requests can cost together, in billionths of a dollar."""
        return sum(self.max_cost(self.body(prompt, number)) for prompt, number in self.missing)

    def count(self, written: int) -> str:
        """Return how many texts exist, `written` ones included, in words."""
        existing = len(self.existing)
        return f"{self.system.name}: {existing + written} of {existing + len(self.missing)} texts exist"

    def forecast(self) -> list[str]:
        """Return what would be requested, where, and at what price, with the first request in full."""
        name = self.system.name
        served = self.system.served
        if not self.missing:
            return [f"{name}: nothing is to be requested"]
        price = "its price is unknown" if self.price is None else f"price: {self.price}"
        cost = "" if self.price is None else f" for at most {show_usd(self.most / BILLION)}"
        example = json.dumps(self.body(*self.missing[0]), ensure_ascii=False)
        return [
            f"{name}: {len(self.missing)} requests to {served.base_url}, model {served.model}{cost}; {price}",
            f"  prompts are sent whole; the first request: {visible(example)[:_EXAMPLE_CHARACTERS]}",
        ]


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(kw_only=True)
class Budget:
    """What requests may cost over all runs, and what they did cost, in billionths of a dollar.

    Attributes:
        limit: The most; None for no limit.
        spent: The cost of all answers, and the most that requests under way or lost can cost.
        under_way: The part of it that is set aside for requests under way.
    """

    limit: int | None
    spent: int
    under_way: int = 0

    def reserve(self, cost: int) -> bool:
        """Set the most that a request can cost aside, if there is room beside the requests under way.

        Raises:
            StudyError: The budget has no room for it, whatever the requests under way will cost.
        """
        if self.limit is not None and self.spent + cost > self.limit:
            if self.under_way:
                return False
            raise StudyError(
                f"the budget of ${self.limit / BILLION:g} is used up: ${self.spent / BILLION:.4f} are spent "
                f"or set aside, and the next request can cost ${cost / BILLION:.4f}; what was answered is "
                "saved, and --budget with a larger sum goes on from here"
            )
        self.spent += cost
        self.under_way += cost
        return True

    def settle(self, reserved: int, cost: int) -> None:
        """Put the real cost of a request in place of what was set aside.

        Raises:
            StudyError: There is a limit, and the request cost more than it could.
        """
        self.spent += cost - reserved
        self.under_way -= reserved
        if self.limit is not None and cost > reserved:
            raise StudyError(
                f"an answer cost ${cost / BILLION:.4f}, and at most ${reserved / BILLION:.4f} was expected. "
                "The server does not keep to the limit of tokens, so no budget can be held there; run "
                "without --budget"
            )


def confirm_requests(
    plans: Sequence[ServedPlan], *, budget_usd: float | None, send_key: set[tuple[str, str]]
) -> dict[str, Server] | None:
    """Return the servers by system, if the user lets keys be sent and money be spent; else None.

    A budget is a consent to spend it. Without one, the user is asked at the terminal.

    Raises:
        StudyError: A price is unknown, a key is missing, or nobody is there to be asked.
    """
    import guard_eval.servers.client  # noqa: F401, PLC0415 (names a missing extra before anything is asked)

    servers = {}
    for plan in plans:
        if plan.price is None or (budget_usd is not None and plan.price.assumed):
            raise StudyError(
                f"the price of {plan.system.served.model!r} of {plan.system.name!r} is unknown; {REMEDY}"
            )
        servers[plan.system.name] = connect_to(plan.system.served, plain_http={url for url, _ in send_key})
    if not may_send_keys(servers.values(), send_key):
        return None
    cost = sum(plan.most for plan in plans)
    if not cost or budget_usd is not None:
        return servers
    count = sum(len(plan.missing) for plan in plans)
    if not sys.stdin.isatty():
        raise StudyError(
            f"{count} requests can cost {show_usd(cost / BILLION)}, and there is no terminal to confirm that "
            "in; say what they may cost together, in US dollars: --budget USD"
        )
    question = f"Send {count:,} requests, for at most {show_usd(cost / BILLION)}?"
    return servers if progress.confirm(question) else None


@dataclass(kw_only=True)
class ServedCounts:
    """What one run requested of one system.

    Attributes:
        written: Texts that were written.
        refused: Texts with which the model declined, which are kept.
        thought: Texts from which thinking was cut off.
        empty: Texts without a word.
        models: The models that the server says answered.
        failures: Why texts were not written, by sentence.
        cost: What the answers cost, in billionths of a dollar.
    """

    written: int = 0
    refused: int = 0
    thought: int = 0
    empty: int = 0
    models: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    cost: int = 0

    def lines(self, plan: ServedPlan) -> Iterator[str]:
        """Yield what was written, in words."""
        remarks = [
            (self.refused, f"{self.refused} refusals, which are kept"),
            (self.thought, f"{self.thought} with thinking, which is cut out"),
            (self.empty, f"{self.empty} empty"),
        ]
        said = "".join(f"; {words}" for count, words in remarks if count)
        name = plan.system.name
        cost = f" for {show_usd(self.cost / BILLION)}" if self.cost else ""
        yield f"{name}: {self.written} of {len(plan.missing)} requested texts written{cost}{said}"
        for reason, count in self.failures.most_common(5):
            yield f"  {count} not written: {reason}"

    def warnings(self, plan: ServedPlan) -> Iterator[str]:
        """Yield what the user should look at."""
        asked = plan.system.served.model
        others = [model for model in self.models if asked.casefold() not in model.casefold()]
        if others:
            yield (
                f"{plan.system.name}: {', '.join(sorted(others))} answered, where {asked} was asked; if that "
                "is another model, correct model or base_url in study.toml"
            )
        if self.empty > self.written / 10:
            yield (
                f"{plan.system.name}: {self.empty} of {self.written} texts are empty; if the model thinks "
                "first, raise generation.max_new_tokens"
            )


class ServedRun:
    """Requests the missing texts of one system."""

    def __init__(self, plan: ServedPlan, server: Server, budget: Budget, advance: progress.Advance) -> None:
        self.counts = ServedCounts()
        self._plan = plan
        self._server = server
        self._budget = budget
        self._advance = advance
        self._changes: set[str] = set()
        self._is_settled = False
        self._failed_in_a_row = 0
        self._workers = Workers(server, concurrency=plan.system.served.concurrency)

    def write(self) -> ServedCounts:
        """Request what is missing, and write each answer. Ctrl-C receives what is under way first.

        Raises:
            StudyError: Only the user can mend it. What was answered until then is saved.
        """
        asyncio.run(self._run())
        return self.counts

    async def _run(self) -> None:
        from guard_eval.servers.client import Client  # noqa: PLC0415 (of an extra)

        served = self._plan.system.served
        queue = deque(self._plan.missing)
        async with Client(self._server, concurrency=served.concurrency) as self._client:
            await self._workers.run([self._work(queue, first=True)])
            size = min(served.concurrency, len(queue))
            await self._workers.run(self._work(queue) for _ in range(size))

    async def _work(self, queue: deque[tuple[Prompt, int]], *, first: bool = False) -> None:
        """Request one text after the other until none is left, or until the server has taken the first."""
        while queue and not self._workers.is_stopped and not (first and self._is_settled):
            prompt, number = queue.popleft()
            failure = await self._request(prompt, number)
            if failure is None:
                self._failed_in_a_row = 0
            else:
                self._note(failure)
            self._advance(1, note=f"{self.counts.failures.total()} failed")

    def _note(self, failure: RequestFailure) -> None:
        """Count a text that was not written.

        Raises:
            StudyError: The server failed too often in a row.
        """
        self.counts.failures[f"{failure.kind} ({failure.detail})"] += 1
        if failure.kind not in OF_THE_SERVER:
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= MOST_FAILURES:
            raise StudyError(
                f"{self._plan.system.name}: the server failed {MOST_FAILURES} times in a row, last with "
                f"{failure.kind} ({failure.detail}); what was answered is saved: fix the server or the "
                "settings, then run the command again"
            )

    async def _request(self, prompt: Prompt, number: int) -> RequestFailure | None:
        """Request a text until an answer is written; return why there is none.

        Raises:
            StudyError: Only the user can mend it.
        """
        failed: Counter[str] = Counter()
        while not self._workers.is_stopped:
            result = await self._send(prompt, number)
            if result is None:
                return None
            if self._change_form(result):
                continue
            failed[result.kind] += 1
            if (result.wait or 0.0) > LONGEST_WAIT_SECONDS:
                raise StudyError(f"the server asks to wait {result.wait:.0f} seconds; run again then")
            if failed[result.kind] >= ATTEMPTS.get(result.kind, 1):
                if result.fatal is not None:
                    raise StudyError(f"{self._plan.system.name}: {result.fatal}")
                return result
            await self._workers.back_off(failed.total(), result.wait or 0.0)
        return None

    def _change_form(self, failure: RequestFailure) -> bool:
        """Give up a part of requests that the server refuses; return whether that may help.

        Raises:
            StudyError: The server refuses what study.toml asks for.
        """
        if failure.change == "temperature" and self._plan.system.temperature is not None:
            raise StudyError(
                f"{self._plan.system.name}: the server does not take a temperature ({failure.detail}); "
                "remove temperature in study.toml"
            )
        change = "seed" if failure.change == "guess" and "seed" not in self._changes else failure.change
        if change not in {"seed", "limit"} or change in self._changes:
            return False
        self._changes.add(change)
        return True

    def _body(self, prompt: Prompt, number: int) -> dict[str, Any]:
        """Return the body of a request in the form that the server takes."""
        body = self._plan.body(prompt, number)
        if "seed" in self._changes:
            del body["seed"]
        if "limit" in self._changes:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body

    async def _send(self, prompt: Prompt, number: int) -> RequestFailure | None:
        """Send a request once, and write its answer; return why there is none."""
        plan = self._plan
        path = "/chat/completions" if plan.system.chat else "/completions"
        async with self._workers.limiter as let_go_at:
            if self._workers.is_stopped:
                return None
            body = self._body(prompt, number)
            most = plan.max_cost(body)
            while not self._budget.reserve(most):
                if not await self._workers.pause(_LOOK_SECONDS):
                    return None
            attempt = secrets.token_hex(8)
            if most:
                append_attempt(plan.study, plan.system, attempt, most)
            began = time.monotonic()
            result = await self._workers.limiter.watch(self._client.post(path, _encode(body)), let_go_at)
            if isinstance(result, RequestFailure):
                cost = most if result.billed else 0
                self._budget.settle(most, cost)
                if cost < most:
                    append_attempt(plan.study, plan.system, attempt, cost)
                return result
            facts = {
                "number": number,
                "seconds": round(time.monotonic() - began, 3),
                "attempt": attempt,
                "request": hash_request(plan.system, plan.body(prompt, number)),
            }
            return self._write(prompt, facts, result, most=most)

    def _write(
        self, prompt: Prompt, facts: dict[str, Any], body: bytes, *, most: int
    ) -> RequestFailure | None:
        """Write an answer as a line; return why it is no text."""
        plan = self._plan
        counts = self.counts
        answer = read_answer(body)
        usage = read_usage(body)
        price = None if plan.price is None else plan.price.cost(usage)
        cost = most if price is None else price
        if answer is None:
            self._budget.settle(most, cost)
            return RequestFailure(kind="unreadable", detail="the answer has no text", billed=True)
        content = answer.text or answer.refusal or ""
        text = (remove_thinking(content) or "") if plan.system.chat else content
        row = {
            "id": prompt.id,
            "text": text if text == content else text.lstrip(),
            "model": usage.model,
            "finish": "length" if answer.ended == "length" else "eos",
            "prompt_tokens": usage.input_tokens,
            "new_tokens": usage.output_tokens,
            "cost": cost,
            **facts,
        }
        append_served(plan.study, plan.system, row)
        self._is_settled = True
        counts.written += 1
        counts.cost += cost
        counts.refused += answer.refusal is not None or answer.ended == "content_filter"
        counts.thought += text != content or has_reasoned(body)
        counts.empty += not text.strip()
        counts.models.update([usage.model] if usage.model else [])
        self._budget.settle(most, cost)
        return None


def open_budget(study: Study, budget_usd: float | None) -> Budget:
    """Return what served systems may cost over all runs, and what they have cost."""
    limit = None if budget_usd is None else int(budget_usd * BILLION + 1e-3)
    return Budget(limit=limit, spent=read_spent(study))


def find_equal_systems(texts: Mapping[str, SystemTexts], served: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each served system whose texts are another one's, to most prompts."""
    told: set[frozenset[str]] = set()
    for name in served:
        for other in texts:
            couple = frozenset({name, other})
            if len(couple) < 2 or couple in told:
                continue
            told.add(couple)
            both = texts[name].keys() & texts[other].keys()
            equal = sum(texts[name][key].text == texts[other][key].text for key in both)
            if both and equal > ALIKE * len(both):
                yield (
                    f"{name} and {other} wrote the same text to {equal} of {len(both)} prompts: if their "
                    "requests differ in a field, the server may have ignored it"
                )
