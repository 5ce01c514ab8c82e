"""Tables of people and judges: pairs for them, and the table of what they have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from guard_eval.cli.console import say, say_next, say_remarks
from guard_eval.cli.replication.output import finish
from guard_eval.cli.replication.study import apart_of
from guard_eval.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd

    from guard_eval.cli.replication.compare import Key, Ours
    from guard_eval.cli.replication.registry import Entry
    from guard_eval.cli.replication.settings_apart import Departures
    from guard_eval.study.folder import Study


def from_file(table: str, path: Path, folder: Path | None, *, rater_kind: str | None) -> None:
    """Print a table of people or judges from a file of verdicts.

    Raises:
        StudyError: The table is not of verdicts, or the file cannot be read.
    """
    from typing import get_args

    from analysis.verdicts.tidy import read
    from guard_eval.cli.replication.ours import WHO, is_counts, of_counts, of_verdicts
    from guard_eval.cli.replication.registry import ENTRIES, find
    from guard_eval.cli.replication.settings_apart import Departures
    from guard_eval.records import RaterKind

    entry = find(table)
    if entry.kind != "verdicts":
        names = ", ".join(one.name for one in ENTRIES if one.kind == "verdicts")
        raise StudyError(f"{entry.label} is not a table of verdicts; --verdicts goes with: {names}")
    kind: RaterKind | None = next((known for known in get_args(RaterKind) if known == rater_kind), None)
    if rater_kind is not None and kind is None:
        raise StudyError(f"--rater-kind {rater_kind!r} is unknown; write person or model")
    remark = f"from {path.name}; nothing is known of its setting but what stands in it"
    if is_counts(path):
        ours = of_counts(path, who=WHO[kind or "person"])
    else:
        verdicts = read(path, rater_kind=kind)
        say_remarks(verdicts)
        ours = of_verdicts(verdicts)
    _finish(entry, ours, Departures(), folder, (remark,))


def from_study(entry: Entry, place: Path, studies: Sequence[tuple[str, Study]]) -> None:
    """Make texts and pairs, print the table of the verdicts there are, and say how to collect more."""
    from guard_eval.cli import generate, pair
    from guard_eval.cli.replication.figures import published
    from guard_eval.cli.replication.ours import of_verdicts

    ((_, study),) = studies
    generate.run(study)
    pair.run(study)
    frame = _verdicts_of(study)
    wanted = {figure.metric.partition(".")[0] for figure in published(entry.label)} - {"both"}
    if frame is not None:
        kinds = set(frame["rater_kind"])
        remarks = ("SIMULATED raters: nobody was asked",) if kinds == {"simulated"} else ()
        _finish(entry, of_verdicts(frame), apart_of(entry, studies), place, remarks)
    else:
        say("\nThere are no verdicts yet.")
    people = (
        f"guard-eval raters {study.folder} add NAME NAME NAME NAME",
        f"guard-eval annotate {study.folder}",
    )
    judge = (f"guard-eval judge {study.folder} --dry-run", f"guard-eval judge {study.folder}")
    commands = [*(people if "people" in wanted else ()), *(judge if "judge" in wanted else ())]
    say_next(*commands, f"guard-eval replicate {entry.name} {place}, for the table of the verdicts so far")


def _verdicts_of(study: Study) -> pd.DataFrame | None:
    from dataclasses import fields

    import pandas as pd

    from analysis.verdicts.tidy import validate
    from guard_eval.store import Store

    with Store.open(study.database, study_hash=study.hash) as store:
        rows = store.tidy()
    if not rows:
        return None
    names = [each.name for each in fields(rows[0])]
    return validate(pd.DataFrame({name: [getattr(row, name) for row in rows] for name in names}))


def _finish(
    entry: Entry,
    found: Mapping[Key, Ours],
    apart: Departures,
    folder: Path | None,
    remarks: tuple[str, ...],
) -> None:
    from guard_eval.cli.replication.compare import compare
    from guard_eval.cli.replication.figures import published

    figures = published(entry.label)
    ours = {key: one for key, one in found.items() if key[4] in {figure.metric for figure in figures}}
    blocks = compare(figures, ours, apart)
    if not blocks:
        raise StudyError(
            f"these verdicts have nothing of {entry.label}: it is about "
            f"{', '.join(dict.fromkeys(figure.metric for figure in figures))}; who judged? see --rater-kind"
        )
    finish(entry, folder, blocks, apart, remarks)
