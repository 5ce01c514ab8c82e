"""Save a judge's run in the database: reserve the costs of requests, price the answers, save the verdicts."""

import asyncio
import secrets
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import BILLION
from guard_eval.servers.answers import read_usage
from guard_eval.servers.failures import FailureKind, RequestFailure
from guard_eval.servers.price import REMEDY, Price
from guard_eval.store import Store, raters
from guard_eval.store import settings as store_settings
from guard_eval.store.judging import calibration, requests
from guard_eval.store.judging.group_commit import GroupCommit
from guard_eval.store.judging.requests import LEASE, PlannedRequest, Question, RequestResult, Reservation
from guard_eval.store.verdicts import save_judged_verdicts
from guard_eval.study.judge_settings import Judge
from judge.prompts.parsing import Choices


@dataclass(kw_only=True)
class RunCounts:
    """The counts of one judge's run.

    Attributes:
        requests: HTTP requests sent, repeated ones included.
        verdicts: Questions that got a verdict.
        in_batches: Questions whose request is in a batch with answers that come after this run.
        failures: Questions without a verdict, by kind and description of the failure.
        cost: The cost of the answers, in billionths of a US dollar.
    """

    requests: int = 0
    verdicts: int = 0
    in_batches: int = 0
    failures: Counter[tuple[FailureKind, str]] = field(default_factory=Counter)
    cost: int = 0


class Journal:
    """Saves the requests, costs and verdicts of one run of one judge in the study's database.

    Attributes:
        store: The study's database.
        rater: The judge as a rater.
        run: The name of the run in the store.
        settings: A hash (64 digits) of all settings that change the judge's requests.
        price: The price of the judge's tokens.
        counts: The counts of the run.
        write: Adds a write to the next transaction.
        reserve: Reserves the highest cost of each planned request.
    """

    def __init__(
        self, store: Store, judge: Judge, *, settings: str, price: Price, budget_usd: float | None
    ) -> None:
        """Check that the judge may rate, and store the wording of the judge's criteria.

        Args:
            store: The study's database.
            judge: The study's settings for the judge.
            settings: A hash (64 digits) of all settings that change the judge's requests.
            price: The price of the judge's tokens.
            budget_usd: The highest total cost of all requests in the database; None for no limit.

        Raises:
            StudyError: The judge is revoked or excluded, or the budget cannot be guaranteed.
        """
        if budget_usd is not None and price.assumed:
            raise StudyError(
                f"--budget cannot be guaranteed for {judge.model!r}, because its price is unknown; {REMEDY}, "
                "or leave --budget out"
            )
        self.store = store
        self.rater = raters.get_or_add_rater(store, judge.rater_name, "model")
        self.settings = settings
        self.run = secrets.token_hex(8)
        self.counts = RunCounts()
        self.price = price
        self._limit = None if budget_usd is None else int(budget_usd * BILLION + 1e-3)
        self._has_warned = False  # about an answer that cost more than its reserved amount
        self.write = GroupCommit(store).write
        self.reserve = partial(requests.reserve_requests, judge=self.rater, run=self.run, limit=self._limit)
        self._renew_lease = partial(requests.renew_lease, run=self.run)
        with store.begin_read() as db:
            requests.check_judge_may_rate(db, self.rater)
        store_settings.store_criteria_wording(
            store, {criterion.name: str(criterion) for criterion in judge.rubric}
        )

    def price_answer(self, request_row: int, answer_body: bytes, *, batch: bool = False) -> RequestResult:
        """Compute an answer's cost. Return the answer and the cost, to be stored in the request's row."""
        usage = read_usage(answer_body)
        cost = self.price.compute_cost(usage, batch=batch)
        return RequestResult(row=request_row, state="answered", response=answer_body, usage=usage, cost=cost)

    def add_answer_cost(self, answer: RequestResult, reserved_cost: int | None) -> None:
        """Add the cost of a stored answer to the run's cost. If the cost is unknown, add the reserved amount.

        Raises:
            StudyError: There is a budget, and the answer cost more than the reserved amount.
        """
        expected = reserved_cost or 0
        cost = expected if answer.cost is None else answer.cost
        self.counts.cost += cost
        if cost <= expected or self._has_warned:
            return
        self._has_warned = True
        words = (
            f"a response cost ${cost / BILLION:.4f}, but at most ${expected / BILLION:.4f} was expected: "
            f"the server ignores the token limit (it sent {answer.usage.output_tokens} tokens)"
        )
        if self._limit is not None:
            raise StudyError(f"{words}. No budget can be guaranteed with this server; run without --budget")
        progress.warn(words)

    def make_budget_error(self, planned: PlannedRequest) -> StudyError:
        """Return the error that the budget does not allow the planned request."""
        return StudyError(
            f"the budget of ${(self._limit or 0) / BILLION:g} is used up: the next request can cost "
            f"${planned.cost / BILLION:.4f}, which is more than the rest. All answers are saved. To "
            "continue, run the command again with a larger --budget"
        )

    async def reserve_request(self, planned: PlannedRequest) -> Reservation:
        """Reserve the highest cost of a request, or return why the request may not be sent now."""
        return cast("Reservation", await self.write(self.reserve, planned))

    async def store_failure_reason(self, error: RequestFailure) -> None:
        """Store the reason why an answer gave no verdict."""
        if error.row is not None:
            await self.write(requests.store_answer_failures, (error.row, error.kind, error.detail))

    def save_verdicts(self, db: Connection, now: datetime, verdicts: list[tuple[Question, Choices]]) -> None:
        """Save verdicts on pairs of the study, or answers to calibration questions.

        All questions of a run are of one kind.
        """
        if verdicts[0][0].check is None:
            save_judged_verdicts(db, self.rater, verdicts, now=now, declared=self.store.declared_now)
        else:
            calibration.store_calibration_answers(db, now, self.settings, verdicts)

    async def keep_renewing_lease(self) -> None:
        """Keep renewing the lease of open requests until the run ends.

        Raises:
            StudyError: The lease cannot be renewed. After the lease, another run may send the same requests.
        """
        seconds = LEASE.total_seconds()
        while True:
            await asyncio.sleep(seconds / 3)
            try:
                async with asyncio.timeout(seconds / 2):
                    await self.extend_lease(LEASE)
            except TimeoutError:
                raise StudyError(
                    f"another program has locked {self.store.name} for {seconds / 2:g} seconds, so no more "
                    "requests are sent. All answers are saved. End that program, then run this command again"
                ) from None

    async def extend_lease(self, lease: timedelta) -> None:
        """Let the lease of the run's open requests end after this time from now."""
        await self.write(self._renew_lease, lease)
