"""What a batch results: answers to be journalled as they are, and why others did not come."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from guard_eval.errors import StudyError
from guard_eval.store import Answer, BatchRequest, Settlement
from judge.backend import ShapeChanged
from judge.batch.lines import OVER, Result, read_results
from judge.errors import ErrorReader, redact
from judge.parsing import RequestError, Usage, excerpt
from judge.prices import Budget
from judge.request import RequestBuilder

_PASSING = {"rate_limited", "server_error", "transport"}


@dataclass(kw_only=True)
class BatchResults:
    """What the lines of one file say.

    Attributes:
        answers: Complete answers; nothing has looked into them but for their usage.
        usages: What the server says of each.
        settled: Requests that brought no answer and are not billed.
        errors: Why, by presentation.
        fatal: What only the user can fix, where a line says so.
    """

    answers: list[Answer] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    settled: list[Settlement] = field(default_factory=list)
    errors: dict[int, RequestError] = field(default_factory=dict)
    fatal: StudyError | None = None


def passing(error: RequestError) -> bool:
    """Return whether the same request may do better in another batch."""
    return error.kind in _PASSING


class Reader:
    """Reads the files of one judge's batches."""

    def __init__(self, refusals: ErrorReader, *, budget: Budget, builder: RequestBuilder) -> None:
        self._key = refusals.access.key
        self._refusals = refusals
        self._budget = budget
        self._builder = builder

    def read(self, content: bytes, requests: dict[str, BatchRequest], *, seconds: float) -> BatchResults:
        """Return what a file brought; what it tells of is taken out of `requests`.

        Args:
            content: The file.
            requests: The batch's open requests by key; what is none of them is passed over.
            seconds: How long the batch took.
        """
        results = BatchResults()
        for result in read_results(content):
            request = requests.pop(result.key, None)
            if request is None:
                continue
            if result.error is None:
                self._answer(results, result, request, seconds)
            else:
                self._record_error(results, result, request)
        return results

    def _answer(self, results: BatchResults, result: Result, request: BatchRequest, seconds: float) -> None:
        line = redact(result.line, self._key)
        usage = self._builder.usage(line)
        results.usages.append(usage)
        results.answers.append(
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
                shape=request.shape,
                seconds=seconds,
                at=datetime.now(UTC),
            )
        )

    def _record_error(self, results: BatchResults, result: Result, request: BatchRequest) -> None:
        results.settled.append(Settlement(key=result.key, attempt=request.attempt, state="released"))
        if request.presentation is None:
            return
        try:
            problem = self._problem(result, request.shape)
        except ShapeChanged:
            return  # the next batch asks in another shape
        except StudyError as fatal:
            results.fatal = fatal
            return
        results.errors[request.presentation] = problem

    def _problem(self, result: Result, shape: str | None) -> RequestError:
        """Return what a line's error counts as.

        Raises:
            ShapeChanged: The shape was refused, and another one is chosen.
            StudyError: Only the user can fix it.
        """
        if result.code in OVER:
            return RequestError(kind="server_error", detail="the batch ended before the request had its turn")
        status = result.status or 500
        return self._refusals.status(
            500 if status == 200 else status,
            {},
            result.error,
            on_error=lambda refusal: self._builder.refused(shape, refusal),
        )
