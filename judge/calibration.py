"""Pairs whose answer is known, made of the study's own texts: how a judge does on them tells its worth.

Four checks. A text against itself must be a tie. A text should be preferred to its own words in disorder. The
same pair the other way round should get the same verdict. And a text made longer with what says nothing new
should not be preferred to itself. None of this is a verdict of the study.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, Pair, content_id
from guard_eval.store import Showing, Store
from guard_eval.study.judge_settings import Judge
from judge.ledger import Ledger, Progress
from judge.lookup import look_up
from judge.orders import LEASE
from judge.parsing import Parsed
from judge.rate_limit import Stopped
from judge.request import RequestBuilder
from judge.retry import Retry
from judge.run import FAILURES_IN_A_ROW, Connect, Session, in_session

Check = Literal["identical", "shuffled", "swapped", "padded"]
"""Which check a pair is for."""

Side = Literal["A", "B"]

ITEMS = 20
"""Pairs of the study from which the checks are made: 7 requests each."""

FILLER = (
    "There is more that could be said about this.",
    "And so it went, as such things do.",
    "In a way, that was all there was to it.",
    "One could go on like this for quite some time.",
)
"""Sentences that say nothing; how many of them, and which come first, follows from the seed."""

_FEWEST_WORDS = 4
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationPair:
    """A pair to ask about.

    Attributes:
        check: What it is for.
        item: The study's pair it is made of, by its id.
        blind: The two texts in the order in which they are shown; its presentation is 0.
        target: On which side the text stands that the check is about: the whole one, the padded one, or the
            study's first method; of identical texts the one shown first.
    """

    check: Check
    item: str
    blind: BlindPair
    target: Side

    @property
    def showing(self) -> Showing:
        """Return what the judge is shown."""
        return Showing(blind=self.blind, sample=0, purpose="calibration")


def questions(pairs: Sequence[Pair], *, seed: int, items: int = ITEMS) -> list[CalibrationPair]:
    """Return the calibration set of a study: the same for the same pairs and seed.

    Texts of too few words cannot be put into disorder; that check is left out for them.

    Args:
        pairs: The study's pairs.
        seed: The study's seed.
        items: From how many of them, drawn by the seed, it is made.
    """
    drawn = sorted(pairs, key=lambda pair: content_id(seed, "calibration", pair.id))[:items]
    return [question for pair in drawn for question in _of(pair, seed)]


def _of(pair: Pair, seed: int) -> Iterator[CalibrationPair]:
    text = (pair.text_a, pair.text_b)[int(content_id(seed, "text", pair.id), 16) % 2]
    blind = BlindPair(presentation=0, prompt=pair.prompt, text_a=text, text_b=text)
    yield CalibrationPair(check="identical", item=pair.id, blind=blind, target="A")
    disordered = shuffled(text, seed=seed)
    if disordered != text:
        yield from _both_orders("shuffled", pair, text, disordered)
    yield from _both_orders("swapped", pair, pair.text_a, pair.text_b)
    yield from _both_orders("padded", pair, padded(text, seed=seed), text)


def _both_orders(check: Check, pair: Pair, target: str, other: str) -> Iterator[CalibrationPair]:
    for side, texts in (("A", (target, other)), ("B", (other, target))):
        blind = BlindPair(presentation=0, prompt=pair.prompt, text_a=texts[0], text_b=texts[1])
        yield CalibrationPair(check=check, item=pair.id, blind=blind, target="A" if side == "A" else "B")


def shuffled(text: str, *, seed: int) -> str:
    """Return the words of `text` in an order drawn by the seed, or `text` where they are too few.

    >>> sorted(shuffled("one two three four", seed=1).split())
    ['four', 'one', 'three', 'two']
    """
    words = text.split()
    if len(set(words)) < _FEWEST_WORDS:
        return text
    order = sorted(range(len(words)), key=lambda place: content_id(seed, "word", place, text))
    mixed = [words[place] for place in order]
    return " ".join(mixed if mixed != words else mixed[::-1])


def padded(text: str, *, seed: int) -> str:
    """Return `text`, about half as long again: its own first sentences once more, and filler.

    >>> padded("A cat sat. It slept.", seed=1).startswith("A cat sat. It slept. A cat sat.")
    True
    """
    repeated: list[str] = []
    for sentence in _SENTENCE.split(text.strip()):
        repeated.append(sentence)
        if len(" ".join(repeated)) >= len(text) / 3:
            break
    start = int(content_id(seed, "filler", text), 16)
    filler = [FILLER[(start + place) % len(FILLER)] for place in range(2)]
    return " ".join([text.rstrip(), *repeated, *filler])


RawResponse = Literal["target", "other", "tie"]
"""A verdict on a calibration's pair: for the text the check is about, for the other, or a tie."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What a judge said of one item of a check, on one criterion.

    Attributes:
        check: Which check.
        item: The study's pair it was made of, by its id.
        criterion: The criterion.
        said: One verdict for each order asked; fewer than `asked` where an answer could not be had.
        asked: In how many orders it is asked.
    """

    check: Check
    item: str
    criterion: str
    said: tuple[RawResponse, ...]
    asked: int


def left(store: Store, judge: Judge, *, seed: int) -> list[Showing]:
    """Return the calibration's pairs to which the journal has no verdict of the judge, for an estimate.

    Raises:
        StudyError: The study has no pairs.
    """
    asked = of_study(store, seed=seed)
    shown = [each.showing for each in asked]
    found = look_up(store, RequestBuilder(judge, seed=seed), shown)
    return [showing for showing, outcome in zip(shown, found, strict=True) if not isinstance(outcome, Parsed)]


def of_study(store: Store, *, seed: int) -> list[CalibrationPair]:
    """Return the calibration set of a study.

    Raises:
        StudyError: It has no pairs.
    """
    pairs = store.pairs()
    if not pairs:
        raise StudyError("the study has no pairs yet, of which a calibration could be made")
    return questions(pairs, seed=seed)


def results(store: Store, judge: Judge, *, seed: int) -> list[Checked]:
    """Return what the journal has of the judge's calibration; nothing where it was never asked.

    Only answers to the very same requests count: of the same texts, criteria, wording and settings.
    """
    pairs = store.pairs()
    asked = questions(pairs, seed=seed) if pairs else []
    found = look_up(store, RequestBuilder(judge, seed=seed), [each.showing for each in asked])
    verdicts: dict[tuple[Check, str, str], list[RawResponse]] = {}
    orders: dict[tuple[Check, str], int] = {}
    for question, outcome in zip(asked, found, strict=True):
        orders[question.check, question.item] = orders.get((question.check, question.item), 0) + 1
        for criterion in judge.criteria:
            said = verdicts.setdefault((question.check, question.item, criterion), [])
            if isinstance(outcome, Parsed):
                said.append(_said(outcome.choices[criterion], question))
    if not any(verdicts.values()):
        return []
    return [
        Checked(check=check, item=item, criterion=criterion, said=tuple(said), asked=orders[check, item])
        for (check, item, criterion), said in verdicts.items()
    ]


def _said(choice: Choice, question: CalibrationPair) -> RawResponse:
    if choice == "tie":
        return "tie"
    return "target" if choice == question.target else "other"


def calibrate(
    store: Store,
    judge: Judge,
    *,
    seed: int,
    lease: timedelta = LEASE,
    budget_usd: float | None = None,
    connect: Connect | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    retry: Retry | None = None,
    environ: Mapping[str, str] | None = None,
    plain_http: bool = False,
) -> Ledger:
    """Ask the judge about the calibration set, and return what it took; see `judge.run.run_judge`.

    Raises:
        StudyError: Only the user can fix it; what was answered until then is saved.
    """
    asked = of_study(store, seed=seed)

    async def work(session: Session) -> Ledger:
        renewing = asyncio.create_task(session.renew())
        try:
            await _CalibrationPool(session, total=len(asked), on_progress=on_progress).run(asked)
        finally:
            renewing.cancel()
        return session.close()

    return in_session(
        work,
        store,
        judge,
        seed=seed,
        lease=lease,
        budget_usd=budget_usd,
        connect=connect,
        retry=retry,
        environ=environ,
        plain_http=plain_http,
    )


class _CalibrationPool:
    """All questions of a calibration at once, as fast as the server bears."""

    def __init__(
        self, session: Session, *, total: int, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._backend, self._sender = session.backend, session.sender
        self._limiter, self._tally = session.limiter, session.tally
        self._total = total
        self._on_progress = on_progress
        self._reported = 0

    async def run(self, asked: Sequence[CalibrationPair]) -> None:
        """Ask them; at any end what is under way is received first."""
        tasks = [asyncio.create_task(self._ask(each)) for each in asked]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._limiter.stop()
            await asyncio.wait(tasks)
        errors = [task.exception() for task in tasks]
        for error in errors:
            if error is not None and not isinstance(error, Stopped):
                raise error

    async def _ask(self, asked: CalibrationPair) -> None:
        outcome, _ = await self._sender.judge(asked.showing)
        if isinstance(outcome, Parsed):
            self._tally.verdicts += 1
        else:
            self._tally.failures[outcome.kind] += 1
        self._report()
        failed = self._tally.failures.total()
        if not isinstance(outcome, Parsed) and not self._tally.verdicts and failed >= FAILURES_IN_A_ROW:
            self._limiter.stop()
            raise StudyError(
                f"the first {failed} questions all failed, last with {outcome.kind} ({outcome.detail}); what "
                "was answered is saved: fix the server or the settings and run again"
            )

    def _report(self) -> None:
        if self._on_progress is None:
            return
        said = self._backend.notices[self._reported :]
        self._reported = len(self._backend.notices)
        self._on_progress(self._tally.progress(total=self._total, notices=said))
