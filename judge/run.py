"""Let a model rate what the store hands out: journal first, read then, pay nothing twice.

An answer is in the journal before anything looks at it, so a run may be killed at any moment: the next one
reads what was paid and sends only the rest. A failure is counted, never a verdict and never a tie.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair
from guard_eval.settings import Judge
from guard_eval.store import Answer, Plan, Store
from judge.client import Client, Reply, Retry, Stopped
from judge.cost import SAMPLES, Price, price
from judge.ledger import Ledger, Progress, Tally
from judge.orders import judge_plan
from judge.parsing import ASK_AGAIN, Parsed, Problem, parse, read_usage
from judge.preview import DryRun, dry_run, located
from judge.prompt import OUTPUTS, keys, request
from judge.refusals import OutputRefused

__all__ = ["DryRun", "Ledger", "Progress", "Retry", "dry_run", "run_judge"]

FAILURES_IN_A_ROW = 10
"""So many presentations failing without a success between them end the run: something stands in the way."""

Result = TypeVar("Result")


def run_judge(
    store: Store,
    judge: Judge,
    *,
    seed: int,
    lease: timedelta,
    on_progress: Callable[[Progress], None] | None = None,
    retry: Retry | None = None,
    environ: Mapping[str, str] | None = None,
) -> Ledger:
    """Judge everything that is left for this judge, and return what it took.

    Stopped by Ctrl-C or by an error, it receives and saves what is under way first; run again, it goes on
    from there.

    Args:
        store: The study's database.
        judge: The study's settings for this judge; its model's name is the rater's.
        seed: The study's seed.
        lease: How long a presentation is this run's.
        on_progress: Called after each presentation, from this thread.
        retry: When to ask again; the defaults by default.
        environ: Where OPENAI_API_KEY and OPENAI_BASE_URL are read; the process's environment by default.

    Raises:
        StudyError: Only the user can mend it; what was answered until then is saved.
    """
    plan = judge_plan(judge, seed=seed, lease=lease)

    async def start() -> Ledger:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal") as writer:
            async with Client(judge, seed=seed, retry=retry, environ=environ) as client:
                run = _Run(
                    store=store,
                    judge=judge,
                    plan=plan,
                    client=client,
                    writer=writer,
                    price=price(located(judge, environ)),
                    on_progress=on_progress,
                )
                return await run.go()

    return asyncio.run(start())


class _Run:
    def __init__(
        self,
        *,
        store: Store,
        judge: Judge,
        plan: Plan,
        client: Client,
        writer: ThreadPoolExecutor,
        price: Price | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.tally = Tally(price=price)
        self._store = store
        self._judge = judge
        self._plan = plan
        self._client = client
        self._writer = writer
        self._on_progress = on_progress
        self._rater = store.rater(judge.model, "model")
        self._journal = {each: answer.body for each, answer in store.answers().items()}
        self._known = {(failure.presentation, failure.kind, failure.detail) for failure in store.failures()}
        self._total = store.progress(self._rater, plan)[1]
        self._queue: deque[BlindPair] = deque()
        self._seen: set[int] = set()
        self._open = 0  # seen and without a verdict: the store hands these out again
        self._exhausted = False
        self._refilling = asyncio.Lock()
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._in_a_row = 0
        self._told = 0

    async def go(self) -> Ledger:
        workers = [asyncio.create_task(self._work()) for _ in range(self._judge.concurrency)]
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:  # reached by Ctrl-C too: what is under way is paid, and is received
            self._client.stop()
            await asyncio.wait(workers)
            errors = [error for worker in workers if not worker.cancelled() and (error := worker.exception())]
        if errors:
            raise errors[0]
        return self.tally.close(
            requests=self._client.requests, retries=self._client.retries, notices=tuple(self._client.notices)
        )

    async def _work(self) -> None:
        while (blind := await self._next()) is not None:
            try:
                outcome, sent = await self._judged(blind)
            except Stopped:
                return
            await self._settle(blind, outcome)
            self._look_out(outcome, sent=sent)

    async def _next(self) -> BlindPair | None:
        async with self._refilling:
            if not (self._queue or self._exhausted or self._client.stopping):
                handed = await self._call(self._hand_out, self._open + self._judge.concurrency)
                new = [blind for blind in handed if blind.presentation not in self._seen]
                self._seen.update(blind.presentation for blind in new)
                self._open += len(new)
                self._queue.extend(new)
                self._exhausted = not new
            return self._queue.popleft() if self._queue and not self._client.stopping else None

    def _hand_out(self, limit: int) -> list[BlindPair]:
        return self._store.hand_out(self._rater, self._plan, limit=limit)

    async def _judged(self, blind: BlindPair) -> tuple[Parsed | Problem, bool]:
        for sample in range(SAMPLES):
            outcome, sent = await self._answer(blind, sample)
            if isinstance(outcome, Parsed) or outcome.kind not in ASK_AGAIN:
                break
        return outcome, sent

    async def _answer(self, blind: BlindPair, sample: int) -> tuple[Parsed | Problem, bool]:
        """Return what the journal or else the server says, and whether it was the server."""
        names = keys(self._judge, blind, self._plan.seed, sample=sample)
        async with self._asking[names[OUTPUTS[0]]]:  # equal requests, of texts that are the same, go once
            for each in names.values():
                if each in self._journal:
                    self.tally.reused += 1
                    return parse(self._journal[each], self._judge.criteria), False
            while True:
                output = self._client.output
                body = request(self._judge, blind, self._plan.seed, output=output, sample=sample)
                try:
                    reply = await self._client.send(body, key=names[output])
                except OutputRefused as refused:
                    self._client.fall_back(refused)
                    continue
                if isinstance(reply, Problem):
                    return reply, True
                await self._keep(blind, names[output], reply)
                return parse(reply.body, self._judge.criteria), True

    async def _keep(self, blind: BlindPair, name: str, reply: Reply) -> None:
        usage = read_usage(reply.body)
        answer = Answer(
            key=name,
            presentation=blind.presentation,
            status=reply.status,
            body=reply.body,
            request_id=reply.request_id,
            model=usage.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            seconds=reply.seconds,
            at=reply.at,
        )
        await self._call(self._store.journal, answer)
        self._journal[name] = reply.body
        self.tally.count(usage)

    async def _settle(self, blind: BlindPair, outcome: Parsed | Problem) -> None:
        if isinstance(outcome, Parsed):
            await self._call(self._save, blind.presentation, outcome)
            self.tally.verdicts += 1
            self._open -= 1
        else:
            if (blind.presentation, outcome.kind, outcome.detail) not in self._known:
                await self._call(self._store.fail, blind.presentation, outcome.kind, outcome.detail)
            self.tally.failures[outcome.kind] += 1
        self._tell()

    def _look_out(self, outcome: Parsed | Problem, *, sent: bool) -> None:
        """End the run when only failures come; those that the journal has already do not count."""
        if isinstance(outcome, Parsed):
            self._in_a_row = 0
            return
        self._in_a_row += sent
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self._client.stop()
            raise StudyError(
                f"the judge {self._judge.model!r} failed {FAILURES_IN_A_ROW} times in a row, last with "
                f"{outcome.kind} ({outcome.detail}); what was answered is saved: mend the server or the "
                "settings and run again"
            )

    def _save(self, presentation: int, parsed: Parsed) -> None:
        self._store.save(presentation, parsed.choices, rater=self._rater)

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        said = self._client.notices[self._told :]
        self._told += len(said)
        self._on_progress(
            Progress(
                total=self._total,
                verdicts=self.tally.verdicts,
                failed=self.tally.failures.total(),
                cost_usd=self.tally.cost_usd,
                notice="; ".join(said) or None,
            )
        )

    async def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a call of the store in the one thread that writes, so that the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)
