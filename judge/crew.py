"""The workers of a run: each takes a pair, has it answered, reads the answer and goes on.

A worker waits for the disk and the server, never for another worker; its verdicts are written meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from guard_eval.errors import StudyError
from guard_eval.store import Judgment, Plan, Showing, Unjudged
from judge.cost import SAMPLES
from judge.ledger import Ledger, Progress
from judge.pace import Stopped
from judge.parsing import Parsed, Problem
from judge.rules import samples
from judge.sending import Answered, Gone
from judge.session import Session

FAILURES_IN_A_ROW = 10
"""So many presentations failing without a success between them end the run: something stands in the way."""

AHEAD = 4
"""For so many places in front of the server one request more is made ready, so that none stands empty."""

LOOK = 2.0
"""Seconds between two looks at whether another run has left something."""


class Crew:
    """As many workers as may be under way at once; `go` lets them work until nothing is left."""

    def __init__(
        self, session: Session, plan: Plan, size: int, *, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._session = session
        self._store, self._run = session.store, session.run
        self._backend, self._sender, self._journal = session.backend, session.sender, session.journal
        self._pace, self._tally = session.pace, session.tally
        self._plan = plan
        self._size = size
        self._on_progress = on_progress
        run, store = session.run, session.store
        self._known = {
            (failure.presentation, failure.kind, failure.detail)
            for failure in store.failures()
            if failure.rater == run.rater.name
        }
        self._total = store.judge_progress(run.rater, plan).left
        self._queue: deque[Showing] = deque()
        self._exhausted = False
        self._refilling = asyncio.Lock()
        self._saving: set[asyncio.Task[None]] = set()
        self._in_a_row = 0
        self._told = 0

    async def go(self) -> Ledger:
        """Judge until nothing is left, and return what it took; what is under way at any end is received."""
        renewing = asyncio.create_task(self._session.renew())
        hands = self._size + -(-self._size // AHEAD)
        workers = [asyncio.create_task(self._work()) for _ in range(hands)]
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            self._pace.stop()
            self._tell(
                f"stopping: {self._pace.in_flight} answers are under way and are waited for; Ctrl-C again "
                "gives them up; run the same command again to go on"
            )
            raise
        finally:  # reached by Ctrl-C too: what is under way is paid, and is received
            self._pace.stop()
            renewing.cancel()
            tasks = [renewing, *workers]
            await asyncio.wait(tasks)
            if self._saving:
                tasks += (await asyncio.wait(self._saving))[0]
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception())]
        if errors:
            raise errors[0]
        return self._session.close()

    async def _work(self) -> None:
        while (showing := await self._next()) is not None:
            try:
                outcome, sent = await self._judged(showing)
            except Stopped:
                return
            except Gone:
                self._total -= 1
                continue
            saving = asyncio.create_task(self._save(showing.blind.presentation, outcome))
            self._saving.add(saving)
            saving.add_done_callback(self._saved)
            self._look_out(outcome, sent=sent)

    async def _next(self) -> Showing | None:
        async with self._refilling:
            while not (self._queue or self._exhausted or self._pace.stopping):
                claimed = await self._journal.call(self._store.claim, self._run, self._plan, 2 * self._size)
                self._queue.extend(claimed)
                self._exhausted = not claimed and not await self._others_left_some()
            return self._queue.popleft() if self._queue and not self._pace.stopping else None

    async def _others_left_some(self) -> bool:
        """Return whether to look again for what other runs held; a dead one's is free after its lease."""
        until = time.monotonic() + self._run.lease.total_seconds() + LOOK
        before = None
        while True:
            held, going = await self._journal.call(self._store.elsewhere, self._run)
            if before is not None and held < before:
                return True
            if not held or going or time.monotonic() > until:
                if held:
                    self._backend.notices.append(
                        f"{held} of the pairs are another run's, which goes on; run again when it has ended"
                    )
                return False
            if before is None:
                self._tell(f"waiting whether another run on another machine goes on with its {held} pairs")
            before = held
            try:
                await self._pace.wait(LOOK)
            except Stopped:
                return False

    async def _judged(self, showing: Showing) -> tuple[Parsed | Problem, bool]:
        """Return the verdict or why there is none, and whether anything was sent for it."""
        sent = False
        for again in range(SAMPLES):
            answered = await self._answered(showing, showing.sample * SAMPLES + again)
            outcome: Parsed | Problem
            if isinstance(answered, Problem):
                outcome, sent = answered, True
            else:
                outcome = self._backend.parse(answered.body, answered.form)
                sent = sent or answered.usage is not None
            if isinstance(outcome, Parsed) or again + 1 >= samples(outcome.kind):
                break
        return outcome, sent

    async def _answered(self, showing: Showing, sample: int) -> Answered | Problem:
        kept = await self._kept(showing, sample) if showing.asked else None
        answered = kept or await self._sender.ask(showing.blind, sample=sample)
        if isinstance(answered, Answered):
            if answered.usage is None:
                self._tally.reused += 1
            else:
                self._tally.count(answered.usage)
        return answered

    async def _kept(self, showing: Showing, sample: int) -> Answered | None:
        """Return the journal's answer in whatever form it was asked for."""
        questions = [
            self._backend.question(showing.blind, sample=sample),
            *self._backend.others(showing.blind, sample=sample),
        ]
        found = await self._journal.call(self._store.answers, [each.key for each in questions])
        for each in questions:
            if each.key in found:
                return Answered(body=found[each.key].body, form=each.form, usage=None)
        return None

    async def _save(self, presentation: int, outcome: Parsed | Problem) -> None:
        if isinstance(outcome, Parsed):
            await self._journal.write(Judgment(presentation=presentation, choices=outcome.choices))
            self._tally.verdicts += 1
        else:
            if (presentation, outcome.kind, outcome.detail) not in self._known:
                await self._journal.write(
                    Unjudged(presentation=presentation, kind=outcome.kind, detail=outcome.detail)
                )
            self._tally.failures[outcome.kind] += 1
        self._tell()

    def _saved(self, saving: asyncio.Task[None]) -> None:
        if saving.cancelled() or saving.exception() is None:
            self._saving.discard(saving)
        else:
            self._pace.stop()  # its error ends the run; `go` finds it

    def _look_out(self, outcome: Parsed | Problem, *, sent: bool) -> None:
        """End the run when only failures come; those that the journal has already do not count."""
        if isinstance(outcome, Parsed):
            self._in_a_row = 0
            return
        self._in_a_row += sent
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self._pace.stop()
            raise StudyError(
                f"the judge {self._run.rater.name!r} failed {FAILURES_IN_A_ROW} times in a row, last with "
                f"{outcome.kind} ({outcome.detail}); what was answered is saved: mend the server or the "
                "settings and run again"
            )

    def _tell(self, *more: str) -> None:
        if self._on_progress is None:
            return
        said = [*self._backend.notices[self._told :], *more]
        self._told = len(self._backend.notices)
        self._on_progress(
            self._tally.progress(total=self._total, requests=self._sender.requests, notices=said)
        )
