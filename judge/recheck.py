"""Send stored requests again, byte for byte, and compare the verdicts to find out if the judge has changed.

A server may replace a model without changing the name. The new answers are stored and cost money like all
answers, but do not count as verdicts or as calibration. At most one request for each pair is drawn, so that
the answers are independent.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from guard_eval.errors import StudyError
from guard_eval.records import BILLION, make_content_id
from guard_eval.reporting.rendering import render_lines
from guard_eval.servers.form import Form
from guard_eval.servers.price import find_price
from guard_eval.servers.server import find_server_url
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging import requests
from guard_eval.store.judging.requests import (
    AnsweredRequest,
    Attempt,
    CalibrationCheck,
    PlannedRequest,
    UnavailableRequest,
)
from guard_eval.store.schema import split_into_sql_chunks
from guard_eval.study.judge_settings import Judge
from judge.decide import History
from judge.preview import ONLINE, Preview

if TYPE_CHECKING:
    from judge.run import OnlineRun

CONFIDENCE = 0.95

_CHECK = CalibrationCheck(check="recheck", target="A", orders=1)


Outcome = Literal["same", "changed", "failed", "stored"]
"""The result of a request. `stored` counts the answers that came in an earlier run of the same day, too."""


def describe_recheck_outcomes(outcomes: Counter[Outcome]) -> str:
    """Describe the number of equal verdicts, and the largest plausible change of a win share.

    >>> describe_recheck_outcomes(Counter(same=38, changed=2))
    '38 of 40 answers give the same verdicts; a change of more than 15 points in any share is not plausible'
    """
    count = outcomes["same"] + outcomes["changed"]
    limit = compute_upper_limit_of_changed_share(outcomes["changed"], count) if count else 0.0
    return render_lines(__file__, "recheck.txt", outcomes=outcomes, count=count, points=100 * limit)[0]


def compute_upper_limit_of_changed_share(changed: int, all_answers: int) -> float:
    """Return the upper confidence limit (Clopper–Pearson, 95 %) of the share of answers that changed.

    No win share can change by more than this share.

    >>> round(compute_upper_limit_of_changed_share(0, 40), 4)  # 1 - 0.05 ** (1 / 40)
    0.0722
    """
    from scipy.stats import binomtest  # noqa: PLC0415 (slow to load)

    interval = binomtest(changed, all_answers, alternative="less").proportion_ci(CONFIDENCE, method="exact")
    return float(interval.high)


def draw_requests_to_recheck(store: Store, judge: Judge, count: int, *, seed: int) -> list[Attempt]:
    """Draw stored requests that gave a verdict, at most one for each pair.

    Raises:
        StudyError: The judge has given no verdict yet.
    """
    pairs = sorted(store_pairs.read_pairs(store), key=lambda pair: make_content_id(seed, "recheck", pair.id))
    drawn: dict[str, Attempt] = {}
    for some_pairs in split_into_sql_chunks(pairs):
        with store.begin_read() as db:
            attempts = requests.read_requests_about_pairs(db, [pair.id for pair in some_pairs])
        for attempt in attempts:
            if attempt.judge == judge.rater_name and attempt.state == "answered" and attempt.failure is None:
                drawn.setdefault(attempt.question.pair_id, attempt)
        if len(drawn) >= count:
            break
    if not drawn:
        raise StudyError(
            f"the judge {judge.rater_name!r} has no verdict to compare yet. Judge the pairs first, without "
            "--recheck"
        )
    return [drawn[pair.id] for pair in pairs if pair.id in drawn][:count]


def preview_recheck(judge: Judge, attempts: Sequence[Attempt]) -> Preview:
    """Preview the cost of sending requests again: the earlier cost, and at worst the cost of long answers."""
    url = find_server_url(judge)
    price = find_price(judge, url)
    costs = {}
    if price is not None:
        worst = sum(price.price_tokens(len(attempt.sent), attempt.max_output_tokens) for attempt in attempts)
        costs[ONLINE] = sum(attempt.cost or 0 for attempt in attempts) / BILLION, worst
    lines = (
        f"judge: {judge.rater_name} (the model {judge.model}) at {url}",
        f"to ask again: {len(attempts):,} stored requests, byte for byte, each once a day",
    )
    return Preview(
        judge=judge,
        attempts=attempts,
        requests=len(attempts),
        price=price,
        costs=costs,
        lines=lines,
    )


def resend_requests(run: OnlineRun, attempts: Sequence[Attempt]) -> str:
    """Send the requests again, and describe how many new answers give the same verdicts as before.

    Raises:
        StudyError: Only the user can fix the problem. Earlier answers are saved.
    """
    return describe_recheck_outcomes(asyncio.run(_resend_requests_concurrently(run, deque(attempts))))


async def _resend_requests_concurrently(run: OnlineRun, queue: deque[Attempt]) -> Counter[Outcome]:
    outcomes: Counter[Outcome] = Counter()
    run.state = replace(run.state, is_settled=True)
    async with run.connect_to_server():
        workers = (_resend_queued_requests(run, queue, outcomes) for _ in range(run.judge.concurrency))
        await run.workers.run(workers)
    return outcomes


async def _resend_queued_requests(run: OnlineRun, queue: deque[Attempt], outcomes: Counter[Outcome]) -> None:
    while queue and not run.workers.is_stopped:
        attempt = queue.popleft()
        form = Form.parse(attempt.form)
        plan = partial(_plan_recheck_request, run, attempt)
        history, step = await run.send_request_until_answered(plan, form, History(run=run.state))
        if isinstance(step, UnavailableRequest):
            queue.append(attempt)
            await run.wait_for_open_requests()
            continue
        reply = history.replies[-1]
        tokens = attempt.max_output_tokens
        stored = AnsweredRequest(row=0, response=attempt.response or b"", max_output_tokens=tokens)
        before = run.builder.read_answer(attempt.question, form, stored)
        outcomes["stored"] += not reply.is_new
        if reply.error or before.error:
            outcomes["failed"] += 1
        else:
            outcomes["same" if reply.result == before.result else "changed"] += 1


def _plan_recheck_request(run: OnlineRun, attempt: Attempt) -> PlannedRequest:
    """Return a stored request as a new request, with today's date in the key, to be sent once a day."""
    today = f"recheck {datetime.now(UTC):%Y-%m-%d} {run.builder.settings} ".encode()
    return PlannedRequest(
        question=replace(attempt.question, check=_CHECK),
        key=hashlib.sha256(today + attempt.sent).hexdigest(),
        instruction=attempt.instruction,
        body=attempt.sent,
        max_output_tokens=attempt.max_output_tokens,
        cost=run.journal.price.compute_max_cost(attempt.sent, attempt.max_output_tokens),
    )
