"""The owner's view in words and tables, for the terminal and the page alike; no format has escaped it yet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from guard_eval.cli.console import count_of
from guard_eval.cli.overview.overview import CriterionLine, Overview
from guard_eval.cli.overview.rater_lines import RaterLine
from guard_eval.estimate import Estimate
from guard_eval.reporting.escaping import NOTHING, one_line
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table
from guard_eval.store.handout import MOST_SKIPS

MEANINGS = {
    "fast": "more than half of the pairs in less time than reading at three times the usual speed takes",
    "same answer": "one answer so many times in a row as fewer than one rater in 1000 would give by chance",
    "gold": "failed at least two gold answers, and half of them",
    "one side": "prefers one side more than fewer than one rater in 1000 would by chance",
    "failed the check": "did not pass the comprehension check in two attempts",
}
"""What the reasons to look at a rater mean."""

BLIND = (
    "Which method is ahead is not shown: looking at that while verdicts come in, and stopping when it "
    "pleases, finds differences that are not there."
)


def headline(view: Overview) -> str:
    """Return how far the study is, in a sentence or two."""
    one, many = (
        ("person", "people") if view.rater_kind == "person" else ("SIMULATED rater", "SIMULATED raters")
    )
    who = one if view.slots == 1 else many
    share = f" ({100 * view.counted / view.wanted:.0f} %)" if view.wanted else ""
    text = (
        f"{view.counted} of {view.wanted} ratings{share}: {count_of(len(view.pairs), 'pair')}, "
        f"{view.slots} {who} each."
    )
    missing = sum((view.slots - number) * pairs for number, pairs in enumerate(view.filled))
    if missing and view.seconds is not None and view.seconds_left is not None:
        text += (
            f" {missing} to go: about {duration(view.seconds_left)} of rating in all, at "
            f"{duration(view.seconds)} a pair."
        )
    elif missing:
        text += f" {missing} to go."
    return text


def warnings(view: Overview) -> tuple[str, ...]:
    """Return what the owner must know."""
    found = []
    if view.changed_settings:
        found.append(
            "study.toml is not what it was when the first verdict came: the report will call the results "
            "exploratory. Take the change back, or begin a new study for it."
        )
    if view.excluded:
        found.append(f"{view.excluded} rating(s) of excluded raters do not count, and are kept.")
    if view.surplus:
        found.append(
            f"{view.surplus} rating(s) came after another rater had taken their place: kept, not counted."
        )
    left_out = sum(line.skipped >= MOST_SKIPS for line in view.pairs)
    if left_out:
        found.append(
            f"{count_of(left_out, 'pair')} skipped by {MOST_SKIPS} raters or more: no new rater gets them. "
            "Excluding raters who skip without a reason gives them out again."
        )
    return tuple(found)


def criteria_table(view: Overview, *, narrow: bool = False) -> Table:
    """Return agreement and preference for a side; `narrow` fits a terminal."""
    several = len({(line.method_a, line.method_b) for line in view.criteria}) > 1
    heads: tuple[str, ...] = ("criterion", "ties %", "same %", "κ (95 %)", "AC1", "A % (95 %)")
    if not narrow:
        heads = (
            "criterion",
            "verdicts",
            "rated twice",
            "ties %",
            "same %",
            "κ",
            "95 %",
            "AC1",
            "A %",
            "95 %",
        )
    remarks: dict[str, list[str]] = {}
    for line in view.criteria:
        for remark in filter(None, (line.agreement.note,)):
            remarks.setdefault(remark, []).append(line.criterion.replace("_", " "))
    notes = "".join(f" {', '.join(dict.fromkeys(where))}: {remark}." for remark, where in remarks.items())
    return Table(
        caption="Agreement, and preference for a side",
        columns=("comparison", *heads) if several else heads,
        rows=tuple(
            ((f"{line.method_a} / {line.method_b}",) if several else ()) + _criterion(line, narrow=narrow)
            for line in view.criteria
        ),
        text_columns=2 if several else 1,
        note="same: two raters of a pair who say the same; κ: Fleiss; A: verdicts for the text shown as "
        "A, of those that are no ties." + notes,
    )


def _criterion(line: CriterionLine, *, narrow: bool) -> tuple[str, ...]:
    found, name = line.agreement, line.criterion.replace("_", " ")
    limits = NOTHING if found.low is None or found.high is None else f"{found.low:.2f} to {found.high:.2f}"
    kappa, ac1 = (NOTHING if one is None else f"{one:.2f}" for one in (found.value, line.ac1.value))
    ties, same, first = map(_percent, (line.ties, line.raw, line.first.value))
    if narrow:
        return (name, ties, same, f"{kappa} ({limits})", ac1, f"{first} ({_limits(line.first)})")
    counts = (str(line.verdicts), str(found.n))
    return (name, *counts, ties, same, kappa, limits, ac1, first, _limits(line.first))


def raters_table(view: Overview, *, narrow: bool = False) -> Table:
    """Return the raters; `narrow` fits a terminal, where `looks` says the rest."""
    heads = ("rater", "rated", "time", "a pair", "ties %", "same %", "A %")
    checks = ("gold failed", "changed", "remarks", "skipped")
    return Table(
        caption="Raters",
        columns=(*heads, *checks, "state")
        if narrow
        else (*heads, "95 %", *checks, "state", "last", "look at"),
        rows=tuple(_rater(line, narrow=narrow) for line in view.raters),
        words=frozenset() if narrow else frozenset((12, 13, 14)),
        strong=frozenset(place for place, line in enumerate(view.raters) if line.flags),
        note=_rater_notes((*heads, *checks)),
    )


def _rater_notes(columns: Sequence[str]) -> str:
    """Return what the columns mean."""
    meanings = {
        "same %": "same: other raters' answers to the same pairs that are the same",
        "A %": "A: pairs on which the answers lean to the text shown as A, of those with a leaning",
        "changed": "changed: answers to pairs shown again that differ",
    }
    found = "; ".join(meaning for column, meaning in meanings.items() if column in columns)
    return found and f"{found}."


def _rater(line: RaterLine, *, narrow: bool) -> tuple[str, ...]:
    of = "/" if narrow else " of "
    cells = (
        one_line(line.rater),
        str(line.rated),
        duration(line.total_seconds) if line.total_seconds else NOTHING,
        NOTHING if line.seconds is None else duration(line.seconds),
        _percent(line.ties),
        _percent(line.same / line.compared) if line.compared else NOTHING,
        _percent(line.first.value),
    )
    checks = (
        f"{line.gold_failed}{of}{line.gold}" if line.gold else NOTHING,
        f"{line.repeats_changed}{of}{line.repeats}" if line.repeats else NOTHING,
        str(line.comments + line.problems) if line.comments + line.problems else "",
        str(line.skipped or ""),
        line.state,
    )
    if narrow:
        return cells + checks
    last = NOTHING if line.last is None else minute(line.last)
    return (*cells, _limits(line.first), *checks, last, ", ".join(_flags(line)))


def _flags(line: RaterLine) -> list[str]:
    return [
        f"same answer ({line.run.position} × {line.run.length})"
        if flag == "same answer" and line.run is not None
        else flag
        for flag in line.flags
    ]


def looks(view: Overview) -> tuple[str, ...]:
    """Return which raters to look at and why, one a line. Nothing is left to decide about excluded raters."""
    return tuple(f"{one_line(line.rater)}: {', '.join(_flags(line))}" for line in _flagged(view))


def _flagged(view: Overview) -> list[RaterLine]:
    return [line for line in view.raters if line.flags and line.state != "excluded"]


def legend(view: Overview) -> str:
    """Return what the flags that were raised mean."""
    raised = sorted({flag for line in _flagged(view) for flag in line.flags}, key=list(MEANINGS).index)
    if not raised:
        return ""
    meanings = "; ".join(f"{flag}: {MEANINGS[flag]}" for flag in raised)
    return f"{meanings[0].upper()}{meanings[1:]}. A flag is a reason to look, none to exclude."


def filled_table(view: Overview) -> Table:
    """Return how many pairs have how many ratings."""
    return Table(
        caption="Pairs by ratings",
        columns=("ratings", *(str(number) for number in range(view.slots + 1))),
        rows=(("pairs", *(str(pairs) for pairs in view.filled)),),
    )


def pairs_table(view: Overview) -> Table:
    """Return the pairs one by one."""
    return Table(
        caption="Pairs",
        columns=(
            *("pair", "dataset", "prompt", "comparison"),
            *("rated", "first method as A", "comments", "problems", "skipped"),
        ),
        rows=tuple(
            (
                line.pair_id,
                one_line(line.dataset),
                one_line(line.prompt_id),
                f"{line.method_a} / {line.method_b}",
                f"{line.rated} of {view.slots}",
                f"{line.a_first} of {line.rated}",
                str(line.comments or ""),
                str(line.problems or ""),
                str(line.skipped or ""),
            )
            for line in view.pairs
        ),
        text_columns=4,
    )


def remarks_table(view: Overview, *, most: int | None = None) -> Table:
    """Return what raters wrote, newest first, at most so many."""
    left = 0 if most is None else max(0, len(view.remarks) - most)
    return Table(
        caption="Comments, problems and skipped pairs",
        columns=("when", "rater", "prompt", "kind", "text"),
        rows=tuple(
            (minute(one.at), one_line(one.rater), one_line(one.prompt_id), one.kind, one_line(one.text))
            for one in view.remarks[:most]
        ),
        text_columns=5,
        note=f"and {left} older ones; the page has them all" if left else "",
    )


def decisions_table(view: Overview) -> Table:
    """Return who was excluded and included again, by whom and why."""
    return Table(
        caption="Exclusions",
        columns=("when", "rater", "decision", "by", "reason"),
        rows=tuple(
            (minute(one.at), one_line(one.rater), one.kind, one_line(one.by), one_line(one.reason))
            for one in view.decisions
        ),
        text_columns=5,
    )


def duration(seconds: float) -> str:
    """Return a duration as one would say it.

    >>> duration(42.4), duration(150), duration(7800)
    ('42 s', '2.5 min', '2 h 10 min')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 59.5:
        return f"{minutes:.1f} min" if minutes < 9.95 else f"{minutes:.0f} min"
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest} min" if rest and hours < 100 else f"{hours} h"


def minute(at: str) -> str:
    """Return the moment of a row to the minute, in UTC.

    >>> minute("2026-01-02T03:04:05.678+00:00")
    '2026-01-02 03:04'
    """
    return at[:16].replace("T", " ")


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f}"


def _limits(interval: Estimate) -> str:
    if interval.low is None or interval.high is None:
        return NOTHING
    return f"{100 * interval.low:.0f} to {100 * interval.high:.0f}"


def tables(view: Overview, *, narrow: bool = False, remarks: int | None = None) -> list[Table]:
    """Return the tables that have rows, all but that of the pairs; `narrow` fits a terminal."""
    raters = raters_table(view, narrow=narrow)
    if narrow:  # leave out empty columns
        cells = [*zip(*raters.rows, strict=True)]
        kept = [place for place, column in enumerate(cells) if set(column) - {"", NOTHING}]
        columns = tuple(raters.columns[place] for place in kept)
        raters = replace(
            raters,
            columns=columns,
            note=_rater_notes(columns),
            rows=tuple(tuple(row[place] for place in kept) for row in raters.rows),
        )
    found = (
        criteria_table(view, narrow=narrow),
        raters,
        filled_table(view),
        remarks_table(view, most=remarks),
        decisions_table(view),
    )
    return [table for table in found if table.rows]


def as_html(view: Overview, *, title: str, at: str, refresh: int | None = None) -> str:
    """Return the page, light or dark as its reader has it.

    Args:
        view: What is shown.
        title: The study's name.
        at: When that was so.
        refresh: After so many seconds the page reads itself again; None for never.
    """
    return render(
        Path(__file__).with_name("progress.html.j2"),
        view=view,
        title=title,
        at=at,
        refresh=refresh,
        headline=headline(view),
        warnings=warnings(view),
        tables=tables(view),
        pairs=pairs_table(view),
        blind=BLIND,
        legend=legend(view),
    )


def as_json(view: Overview, *, title: str, at: str) -> str:
    """Return every number, and what raters wrote."""
    numbers = {"study": title, "at": at, **asdict(view)}
    return json.dumps(numbers, indent=1, allow_nan=False)
