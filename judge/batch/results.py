"""What a batch brought: answers to be journalled as they are, and why others did not come."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from guard_eval.errors import StudyError
from guard_eval.judge_settings import Judge
from guard_eval.store import Answer, BatchRequest, Settlement
from judge.asking import Asking
from judge.backend import AskAnew
from judge.batch.lines import OVER, Result, read_results
from judge.budget import Budget
from judge.endpoint import api_key, server
from judge.parsing import Problem, Usage
from judge.printable import excerpt
from judge.refusals import Refusals, redact

_PASSING = {"rate_limited", "server_error", "transport"}


@dataclass(kw_only=True)
class Brought:
    """What the lines of one file say.

    Attributes:
        answers: Complete answers; nothing has looked into them but for their usage.
        usages: What the server says of each.
        settled: Requests that brought no answer and are not billed.
        troubles: Why, by presentation.
        fatal: What only the user can mend, where a line says so.
    """

    answers: list[Answer] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    settled: list[Settlement] = field(default_factory=list)
    troubles: dict[int, Problem] = field(default_factory=dict)
    fatal: StudyError | None = None


def passing(problem: Problem) -> bool:
    """Return whether the same request may do better in another batch."""
    return problem.kind in _PASSING


class Reader:
    """Reads the files of one judge's batches."""

    def __init__(
        self, judge: Judge, *, budget: Budget, asking: Asking, environ: Mapping[str, str] | None = None
    ) -> None:
        url = server(judge, environ)
        self._key = api_key(url, os.environ if environ is None else environ)
        self._refusals = Refusals(model=judge.model, url=url, key=self._key)
        self._budget = budget
        self._asking = asking

    def read(self, content: bytes, requests: dict[str, BatchRequest], *, seconds: float) -> Brought:
        """Return what a file brought; what it tells of is taken out of `requests`.

        Args:
            content: The file.
            requests: The batch's open requests by key; what is none of them is passed over.
            seconds: How long the batch took.
        """
        brought = Brought()
        form = self._asking.form
        for result in read_results(content):
            request = requests.pop(result.key, None)
            if request is None:
                continue
            if result.error is None:
                self._answer(brought, result, request, seconds)
            else:
                self._trouble(brought, result, request, form)
        return brought

    def _answer(self, brought: Brought, result: Result, request: BatchRequest, seconds: float) -> None:
        line = redact(result.line, self._key)
        usage = self._asking.usage(line)
        brought.usages.append(usage)
        brought.answers.append(
            Answer(
                key=result.key,
                attempt=request.attempt,
                presentation=request.presentation,
                status=200,
                body=line,
                request_id=result.request_id and excerpt(redact(result.request_id, self._key)),
                model=usage.model,
                fingerprint=usage.fingerprint,
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_tokens,
                output_tokens=usage.output_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                usd=self._budget.cost(usage),
                backend="batch",
                seconds=seconds,
                at=datetime.now(UTC),
            )
        )

    def _trouble(self, brought: Brought, result: Result, request: BatchRequest, form: str) -> None:
        brought.settled.append(Settlement(key=result.key, attempt=request.attempt, state="released"))
        if request.presentation is None:
            return
        try:
            problem = self._problem(result, form)
        except AskAnew:
            return  # the next batch asks in another shape
        except StudyError as fatal:
            brought.fatal = fatal
            return
        brought.troubles[request.presentation] = problem

    def _problem(self, result: Result, form: str) -> Problem:
        """Return what a line's error counts as.

        Raises:
            AskAnew: The shape was refused, and another one is chosen.
            StudyError: Only the user can mend it.
        """
        if result.code in OVER:
            return Problem(kind="server_error", detail="the batch ended before the request had its turn")
        status = result.status or 500
        return self._refusals.status(
            500 if status == 200 else status,
            {},
            result.error,
            look=lambda refusal: self._asking.refused(form, refusal),
        ).problem
