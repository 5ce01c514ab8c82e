"""Batches come back: looked at until they end, then journalled, answers before anything else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from guard_eval.errors import StudyError
from guard_eval.store import Batch
from judge.batch.api import ENDED, BatchApi, Missing, State
from judge.batch.lines import MOST_REQUESTS
from judge.batch.results import BatchResults, Reader, passing
from judge.batch.state import BatchState
from judge.parsing import RequestError

ROUNDS = 3
"""In how many batches one pair may meet a passing trouble before it counts as a failure."""

KEPT = timedelta(days=30)
"""How long OpenAI keeps the files of a batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How often the provider is asked how far a batch is, in seconds.

    Attributes:
        first: Until it is asked again for the first time.
        growth: How much longer each further wait is.
        longest: The longest wait.
        second_look: Between two looks for a batch whose making was interrupted.
    """

    first: float = 1.0
    growth: float = 1.5
    longest: float = 60.0
    second_look: float = 5.0


class Collector:
    """Waits for batches, and journals what they bring.

    Attributes:
        most: How many requests the provider takes in one batch, as far as is known.
    """

    def __init__(self, state: BatchState, api: BatchApi, reader: Reader, patience: Patience) -> None:
        self.most = MOST_REQUESTS
        self._state = state
        self._api = api
        self._reader = reader
        self._patience = patience
        self._met: Counter[int] = Counter()
        self._said: dict[int, str] = {}

    async def find(self, batch: Batch) -> Batch | None:
        """Return a batch whose making was interrupted, if the provider has it; else it costs nothing."""
        assert batch.input_file is not None
        try:
            state = await self._api.find(batch.input_file)
            if state is None:  # a provider's list may be a little behind
                await asyncio.sleep(self._patience.second_look)
                state = await self._api.find(batch.input_file)
        except Missing:
            self._state.report(
                "a batch may have been made when a run was interrupted, and the server cannot list its "
                "batches: its requests count as lost and are sent again"
            )
            await self._state.close(batch, billed=True)
            return None
        if state is None:
            await self._state.close(batch, billed=False)
            return None
        return await self._state.note(batch, state)

    async def collect(self, batches: Sequence[Batch]) -> None:
        """Wait for the batches and journal what they bring.

        Raises:
            StudyError: A batch or a request met something that only the user can fix; all that had come
                until then is journalled.
        """
        pause = self._patience.first
        while batches:
            looked = [await self._look(batch) for batch in batches]
            going = [batch for batch in looked if batch is not None]
            if going and len(going) == len(batches):
                await asyncio.sleep(pause)
                pause = min(self._patience.longest, pause * self._patience.growth)
            batches = going

    async def _look(self, batch: Batch) -> Batch | None:
        """Ask how far a batch is; collect it when it has ended, and return it otherwise."""
        try:
            state = await self._api.look(str(batch.provider_id))
        except Missing:
            await self._forgotten(batch)
            return None
        batch = await self._state.note(batch, state)
        done = "" if state.done is None or not state.total else f", {state.done} of {state.total}"
        words = f"the batch {state.id}: {state.status}{done}"
        if self._said.get(batch.id) != words:
            self._said[batch.id] = words
            self._state.report(words)
        if state.status not in ENDED:
            return batch
        await self._settle(batch, state)
        return None

    async def _forgotten(self, batch: Batch) -> None:
        """Give up a batch that the provider does not know any more.

        Raises:
            StudyError: It should know it: the key may be another's.
        """
        if datetime.now(UTC) - batch.made_at < KEPT:
            raise StudyError(
                f"the server at {self._api.url} knows no batch {batch.provider_id}, which this study sent; "
                "set key and address to those it was sent with"
            )
        self._state.report(
            f"the server no longer has the batch {batch.provider_id}: its requests count as lost and are "
            "sent again"
        )
        await self._state.close(batch, billed=True)

    async def _settle(self, batch: Batch, state: State) -> None:
        """Journal a batch that has ended: answers first, then what brought none.

        Raises:
            StudyError: The batch or a request met something that only the user can fix.
        """
        requests = await self._state.requests(batch)
        count = sum(each.presentation is not None for each in requests.values())
        errors: dict[int, RequestError] = {}
        fatal: StudyError | None = None
        lost = False
        for file in (state.output_file, state.error_file):
            results = BatchResults()
            try:
                content = b"" if file is None else await self._api.download(file)
                results = self._reader.read(content, requests, seconds=state.seconds)
            except Missing:
                lost = True
            await self._state.keep(results)
            errors.update(results.errors)
            fatal = fatal or results.fatal
        await self._state.close(batch, billed=lost or state.status == "completed")
        if state.status != "failed":
            silent = RequestError(kind="server_error", detail="the batch brought neither answer nor error")
            errors.update((each.presentation, silent) for each in requests.values() if each.presentation)
        await self._meet(state, errors)
        if fatal is not None:
            raise fatal
        if state.status == "failed":
            self._refused(state, count)

    async def _meet(self, state: State, errors: Mapping[int, RequestError]) -> None:
        """Count as failures what will not pass, or has not passed in so many batches."""
        if not errors:
            return
        kinds = Counter(problem.kind for problem in errors.values())
        said = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        self._state.report(f"the batch {state.id} brought no answer for some: {said}")
        self._met.update(errors.keys())
        await self._state.fail(
            {
                number: problem
                for number, problem in errors.items()
                if not passing(problem) or self._met[number] >= ROUNDS
            }
        )

    def _refused(self, state: State, count: int) -> None:
        """See what to do about a batch that the provider did not begin.

        Raises:
            StudyError: Only the user can do something.
        """
        why = "; ".join(state.errors) or "it does not say why"
        if "token_limit_exceeded" not in state.codes or count < 2:
            raise StudyError(f"the provider refused the batch {state.id}: {why}; nothing of it is paid")
        self.most = max(1, count // 2)
        self._state.report(f"the provider takes less at once ({why}); sending {self.most} at a time")
