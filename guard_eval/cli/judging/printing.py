"""What `guard-eval judge` prints: previews, progress, ledger."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby

from guard_eval.cli.console import progress, record, say, say_table
from guard_eval.records import JudgeSpending
from guard_eval.reporting.escaping import visible
from guard_eval.store import Failure
from judge.ledger import FailureReason, Ledger, RunProgress, counted_reasons, failure_reasons
from judge.lookup import Reparsed
from judge.pricing.preview import DryRun, usd

WINDOW = 30.0
"""Seconds over which the rate is measured."""

LEDGER: dict[str, Callable[[JudgeSpending], str]] = {
    "requests": lambda spend: str(spend.requests),
    "of these lost": lambda spend: str(spend.lost),
    "prompt tokens": lambda spend: str(spend.input_tokens),
    "of these cached": lambda spend: str(spend.cached_tokens),
    "completion tokens": lambda spend: str(spend.output_tokens),
    "of these reasoning": lambda spend: str(spend.reasoning_tokens),
    "US dollars": lambda spend: f"{spend.usd:.4f}",
    "set aside for lost or open": lambda spend: f"{spend.held_usd:.4f}",
}
"""The ledger's rows."""

REMEDIES = {
    "timeout": " (they may have been charged; set a longer timeout in study.toml, and they are asked again)",
    "truncated": " (set a higher max_output_tokens in study.toml, and they are asked again)",
    "too_long": " (the texts do not fit the model's context; name another model)",
    "unrecorded": " (the recording has no answer to them)",
}
"""What helps against a kind of failure, where something does."""


REASONS = 5
"""So many reasons of one kind of failure are printed."""


def say_previews(
    previews: Sequence[DryRun], *, notes: bool, example: bool, changes: Mapping[str, Sequence[str]]
) -> None:
    """Print what would be asked of each judge, what it would cost, and one request in full.

    Args:
        previews: The judges' runs.
        notes: Whether notes are printed too.
        example: Whether the first request is.
        changes: What of each judge's requests is another than it was for its verdicts.
    """
    record("previews", [_preview_record(preview) for preview in previews])
    for preview in previews:
        for line in preview.summary:
            if notes or not line.startswith("note: "):
                say(line)
        if changed := changes.get(preview.name):
            say(
                f"warning: {preview.name} has verdicts on other requests than study.toml asks for now "
                f"({'; '.join(changed)}), which stay as they are. Take back the change, or give the judge a "
                'new name there (name = "…"), under which all pairs are asked again'
            )
        if not preview.example:
            say("nothing is left to ask")
        say()
    rows = [row for preview in previews if preview.example for row in preview.costs]
    if rows:
        say_table(["cost", "expected", "at worst"], rows)
    shown = next((preview for preview in previews if preview.example), None)
    if example and shown is not None:
        say(f"\nThe first request to {shown.name}, as it would be sent:\n\n{shown.example}")


def _preview_record(preview: DryRun) -> dict[str, object]:
    found = preview.estimate
    return {
        "judge": preview.name,
        "model": preview.model,
        "server": preview.server,
        "requests": found.requests,
        "reused": found.reused,
        "expected_usd": found.batch_expected_usd if preview.style == "batch" else found.expected_usd,
        "worst_usd": found.batch_worst_usd if preview.style == "batch" else found.worst_usd,
        "warnings": preview.warnings,
    }


def question(previews: Sequence[DryRun], *, budget: float | None) -> str:
    """Return what is asked before anything is spent."""
    left = [preview for preview in previews if preview.example]
    requests = sum(preview.estimate.requests for preview in left)
    if budget is not None:
        return f"Send {requests:,} requests, for never more than {usd(budget)} over all runs?"
    expected, worst = 0.0, 0.0
    for preview in left:
        found = preview.estimate
        in_batch = preview.style == "batch"
        expected += (found.batch_expected_usd if in_batch else found.expected_usd) or 0.0
        worst += (found.batch_worst_usd if in_batch else found.worst_usd) or 0.0
    return f"Send {requests:,} requests, for about {usd(expected)} and at worst {usd(worst)}?"


class ProgressLine:
    """The line of progress of one judge: rate, cost, failures by kind, time left."""

    def __init__(self, name: str, *, budget: float | None) -> None:
        self.bar = progress("judgments", window=WINDOW)
        self._task = self.bar.add_task(visible(name), total=None, note="")
        self._name = name
        self._budget = budget
        self._recent: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._notices: list[str] = []

    def progress(self, now: RunProgress) -> None:
        """Show how far the judge is."""
        done = now.verdicts + now.failed
        parts = [self._rate(done), self._cost(now.cost_usd)]
        parts.append(", ".join(f"{count} {kind}" for kind, count in sorted(now.failures.items())))
        note = " · ".join(part for part in parts if part)
        self.bar.update(self._task, total=now.total, completed=done, note=note)
        if now.notice:
            self._notices.append(now.notice)
            self.bar.console.print(visible(now.notice))

    def done(self, ledger: Ledger) -> None:
        """Print what the run did, below the line of progress."""
        self.bar.stop()
        printed = "\n".join(self._notices)
        for notice in ledger.notices:
            if notice not in printed:
                say(notice)
        cost = "" if ledger.cost_usd is None else f", {usd(ledger.cost_usd)}"
        say(
            f"{self._name}: {ledger.verdicts} judged, {ledger.requests} requests sent ({ledger.retries} of "
            f"them again), {ledger.reused} answers from the journal{cost}"
        )

    def failures(self, ledger: Ledger) -> None:
        """Print what of the run failed, where no ledger of the study does."""
        counts = {(self._name, *why): count for why, count in ledger.reasons.items()}
        _say_reasons(counted_reasons(counts))

    def _rate(self, done: int) -> str:
        now = time.monotonic()
        self._recent.append((now, done))
        while len(self._recent) > 2 and self._recent[0][0] < now - WINDOW:
            self._recent.popleft()
        (start, before), seconds = self._recent[0], now - self._recent[0][0]
        return f"{(done - before) / seconds:.1f}/s" if seconds > 0.5 and start else ""

    def _cost(self, cost_usd: float | None) -> str:
        if not cost_usd:
            return ""
        return f"${cost_usd:.2f}" + ("" if self._budget is None else f" of at most ${self._budget:g}")


@contextmanager
def showing_progress(name: str, *, budget: float | None) -> Iterator[ProgressLine]:
    """Show one judge's progress; stopped early, say how to go on."""
    shown = ProgressLine(name, budget=budget)
    try:
        with shown.bar:
            yield shown
    except KeyboardInterrupt:
        say("what was answered is saved, and the same command goes on from here; --ledger shows what it took")
        raise


def say_ledger(spends: Sequence[JudgeSpending], failures: Sequence[Failure]) -> None:
    """Print what each judge has taken over all runs, and what has failed to this day."""
    record("judges", spends)
    record("failures", [asdict(reason) for reason in failure_reasons(failures)])
    if not spends:
        say("no judge has been asked yet")
        return
    say()
    say_table(
        ["", *(each.judge for each in spends)],
        [[name, *(value(each) for each in spends)] for name, value in LEDGER.items()],
    )
    for each in spends:
        if each.unmetered:
            say(f"{each.judge}: {each.unmetered} answers came without token counts; they are missing there")
        if each.unpriced:
            say(f"{each.judge}: the price of {each.unpriced} requests was unknown; they are in no sum")
        if each.open:
            say(f"{each.judge}: {each.open} requests are under way, or in a batch")
    if failures:
        _say_reasons(failure_reasons(failures))
        say(
            "What got no answer is asked again by the same command; an answer that is no verdict is kept "
            "and counted in the report."
        )


def _say_reasons(reasons: Sequence[FailureReason]) -> None:
    """Print each judge's failures by kind, with the reasons that were given, the most frequent first."""
    for (judge, kind), group in groupby(
        sorted(reasons, key=lambda each: (each.judge, each.kind)), lambda each: (each.judge, each.kind)
    ):
        listed = sorted(group, key=lambda each: -each.count)
        say(f"failed: {judge}: {sum(each.count for each in listed)} × {kind}{REMEDIES.get(kind, '')}")
        for each in listed[:REASONS]:
            say(f"    {each.count} × {each.reason}")
        if more := sum(each.count for each in listed[REASONS:]):
            say(f"    {more} × something else: --view FILE.html shows each")


def say_reparsed(name: str, result: Reparsed) -> None:
    """Print what came of reading a journal again."""
    say(
        f"{name}: {result.answers} answers to {result.presentations} presentations read again, nothing sent; "
        f"{result.changed} verdicts changed"
    )
    for kind, count in sorted(result.unread.items()):
        say(f"{name}: {count} × {kind}")
