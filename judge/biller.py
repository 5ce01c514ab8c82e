"""Price the requests and the answers of one run."""

from collections import Counter
from dataclasses import dataclass, field

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import BILLION
from guard_eval.servers.answers import read_usage
from guard_eval.servers.failures import FailureKind
from guard_eval.servers.price import REMEDY, Price
from guard_eval.store.judging.requests import PlannedRequest, RequestResult
from guard_eval.study.judge_settings import Judge


@dataclass(kw_only=True)
class RunCounts:
    """The counts of one judge's run.

    Attributes:
        requests: HTTP requests sent, repeated ones included.
        verdicts: Questions that got a verdict.
        in_batches: Questions whose request is in another run's batch.
        failures: Questions without a verdict, by kind and sentence.
        cost: The cost of the answers, in billionths of a US dollar.
    """

    requests: int = 0
    verdicts: int = 0
    in_batches: int = 0
    failures: Counter[tuple[FailureKind, str]] = field(default_factory=Counter)
    cost: int = 0


class Biller:
    """Prices the requests and answers of one run.

    Attributes:
        counts: The counts of the run.
        limit: The highest total cost of all requests of the study, in billionths of a US dollar.
    """

    def __init__(self, judge: Judge, price: Price | None, budget_usd: float | None) -> None:
        """Make a biller.

        `price` is None if it is unknown. `budget_usd` is the budget over all runs; None for no limit.

        Raises:
            StudyError: The budget cannot be guaranteed.
        """
        if budget_usd is not None and (price is None or price.assumed):
            raise StudyError(
                f"--budget cannot be guaranteed for {judge.model!r}, because its price is unknown; {REMEDY}, "
                "or leave --budget out"
            )
        self.counts = RunCounts()
        self.limit = None if budget_usd is None else int(budget_usd * BILLION + 1e-3)
        self._price = price
        self._has_warned = False  # about an answer that cost more than its reserved amount

    def compute_highest_cost(self, body: bytes, max_output_tokens: int, *, batch: bool = False) -> int | None:
        """Return the highest cost of a request; None if its price is unknown."""
        return None if self._price is None else self._price.max_cost(body, max_output_tokens, batch=batch)

    def price_answer(self, row: int, body: bytes, *, batch: bool = False) -> RequestResult:
        """Return the values that complete an answer's row. Of the answer, only the token counts are read."""
        usage = read_usage(body)
        cost = None if self._price is None else self._price.cost(usage, batch=batch)
        return RequestResult(row=row, state="answered", response=body, usage=usage, cost=cost)

    def add_cost(self, settled: RequestResult, reserved: int | None) -> None:
        """Add the cost of a stored answer, or the reserved amount if unknown, in billionths of a US dollar.

        Raises:
            StudyError: There is a budget, and the answer cost more than the reserved amount.
        """
        expected = reserved or 0
        cost = expected if settled.cost is None else settled.cost
        self.counts.cost += cost
        if cost <= expected or self._has_warned:
            return
        self._has_warned = True
        words = (
            f"a response cost ${cost / BILLION:.4f}, but at most ${expected / BILLION:.4f} was expected: "
            f"the server ignores the token limit (it sent {settled.usage.output_tokens} tokens)"
        )
        if self.limit is not None:
            raise StudyError(f"{words}. No budget can be guaranteed with this server; run without --budget")
        progress.warn(words)

    def explain_used_up_budget(self, planned: PlannedRequest) -> StudyError:
        """Return the error that ends the run if the budget does not allow another request."""
        return StudyError(
            f"the budget of ${(self.limit or 0) / BILLION:g} is used up: the next request can cost "
            f"${(planned.cost or 0) / BILLION:.4f}, and less than that is left. All answers are saved. To "
            "continue, run the command again with a larger --budget"
        )
