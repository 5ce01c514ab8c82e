"""`guard-eval report`: the verdicts as shares, tests, agreement, and a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from analysis.report import Context, Example
    from guard_eval.records import Pair, RaterKind
    from guard_eval.settings import Settings
    from guard_eval.store import Store
    from guard_eval.study import Study

EXAMPLES = 6
"""How many pairs the report shows side by side."""


def command(
    source: Annotated[
        Path, typer.Argument(metavar="STUDY|VERDICTS.csv", help="A study, or a tidy table of verdicts.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="The folder to write; default: report, beside the data.")
    ] = None,
    rater_kind: Annotated[
        str | None,
        typer.Option(
            metavar="person|model|simulated",
            help="Who judged, where a table of verdicts does not say it in a column rater_kind; "
            "default: person.",
        ),
    ] = None,
) -> None:
    """Write the significance report.

    index.html opens from disk; beside it are report.md, report.tex, the figures, and every number as CSV.
    """
    from guard_eval.errors import StudyError
    from guard_eval.study import Study

    if not source.is_dir():
        run_file(source, output=output, rater_kind=rater_kind)
    elif rater_kind is None:
        run(Study.open(source), output=output)
    else:
        raise StudyError(f"{source} is a study, and knows who judged; leave --rater-kind out")


def run(study: Study, *, output: Path | None = None) -> Path:
    """Report on a study; return the page to open."""
    from dataclasses import fields

    import pandas as pd

    from analysis.report import write_report
    from guard_eval.errors import StudyError
    from guard_eval.store import Store

    with Store.open(study.database, study_hash=study.hash) as store:
        rows = store.tidy()
        if not rows:
            raise StudyError(
                f"{study.folder} has no verdicts yet; collect some: guard-eval annotate or guard-eval judge"
            )
        context = _context(study, store, {row.rater_kind for row in rows})
    # Column by column: a dict for each of a million verdicts takes a minute.
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(rows[0])}
    report = write_report(pd.DataFrame(columns), output or study.report, context)
    return _say_report(report.paths, report.summary)


def run_file(path: Path, *, output: Path | None = None, rater_kind: str | None = None) -> Path:
    """Report on a table of verdicts that need not come from a study; return the page to open."""
    from analysis.report import Context, write_report
    from analysis.tidy import read

    kind = _kind(rater_kind)
    verdicts = read(path, rater_kind=kind)
    context = Context(
        name=path.stem,
        question="Which of the compared strategies writes better continuations?",
        versions=_versions(),
        command=f"guard-eval report {path.name}{f' --rater-kind {kind}' if kind else ''}",
    )
    report = write_report(verdicts, output or path.parent / f"{path.stem}-report", context)
    return _say_report(report.paths, report.summary)


def _kind(given: str | None) -> RaterKind | None:
    from typing import get_args

    from guard_eval.errors import StudyError
    from guard_eval.records import RaterKind

    known: tuple[RaterKind, ...] = get_args(RaterKind)
    found = next((kind for kind in known if kind == given), None)
    if given is not None and found is None:
        raise StudyError(f"--rater-kind {given!r} is unknown; write one of: {', '.join(known)}")
    return found


def _say_report(paths: Sequence[Path], summary: str) -> Path:
    page = next(path for path in paths if path.name == "index.html")
    say(summary)
    say(f"\nreport: {page}")
    return page


def _context(study: Study, store: Store, kinds: set[RaterKind]) -> Context:
    from collections import Counter

    from analysis.report import Context

    settings = study.settings
    metrics, metrics_notes = _read_metrics(study.metrics)
    pairs = sorted(store.pairs(), key=lambda pair: pair.id)
    return Context(
        name=settings.name,
        question=settings.question,
        seed=settings.seed,
        study_hash=study.hash,
        stored_hash=store.study_hash(),
        planned=_family(study, kinds),
        alpha=settings.analysis.alpha,
        correction=settings.analysis.correction,
        sequential=settings.analysis.sequential,
        raters_per_item=_raters_per_item(settings),
        metrics=metrics,
        metrics_notes=metrics_notes,
        examples=tuple(_example(pair) for pair in pairs[:EXAMPLES]),
        failures=tuple(sorted(Counter(failure.kind for failure in store.failures()).items())),
        versions=_versions(),
        settings=(study.folder / "study.toml").read_text(encoding="utf-8"),
        command=f"guard-eval report {study.folder.name}",
    )


def _raters_per_item(settings: Settings) -> dict[str, int]:
    people = settings.annotation.raters_per_pair
    return {"person": people, "simulated": people, "model": len(settings.judge)}


def _family(study: Study, kinds: set[RaterKind]) -> tuple[tuple[str, str, str], ...]:
    """Return what study.toml declares for the kinds of raters that have rated.

    People and judges are asked different criteria, and Holm's correction is made for each kind by itself.
    """
    settings = study.settings
    asked: dict[str, None] = {}
    if kinds - {"model"}:
        asked |= dict.fromkeys(settings.annotation.criteria)
    if "model" in kinds:
        asked |= dict.fromkeys(criterion for judge in settings.judge for criterion in judge.criteria)
    return tuple((a, b, criterion) for a, b in settings.pairs.compare for criterion in asked)


def _read_metrics(folder: Path) -> tuple[pd.DataFrame | None, tuple[str, ...]]:
    """Return the metrics that a report shows, a row for each dataset and strategy, and what they mean."""
    import pandas as pd

    from guard_eval.errors import StudyError
    from guard_eval.metrics.scores import METRICS

    try:
        wide = pd.read_csv(folder / "metrics.csv")
        scores = pd.read_csv(folder / "scores.csv")
        definitions = scores.groupby("metric")["signature"].unique()
    except FileNotFoundError:
        return None, ()
    except (ValueError, KeyError) as error:
        raise StudyError(
            f"cannot read the tables in {folder} ({error}); run guard-eval measure again"
        ) from error
    shown = [name for name in METRICS if name in wide.columns and wide[name].notna().any()]
    notes = tuple(
        f"{METRICS[name].title}: {METRICS[name].meaning} ({'; '.join(map(str, definitions.get(name, ())))})"
        for name in shown
    )
    return wide[["dataset", "strategy", "texts", *shown]], notes


def _example(pair: Pair) -> Example:
    from analysis.report import Example

    return Example(
        pair_id=pair.id,
        dataset=pair.dataset,
        prompt=pair.prompt,
        method_a=pair.method_a,
        method_b=pair.method_b,
        text_a=pair.text_a,
        text_b=pair.text_b,
    )


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    packages = ("guard-eval", "numpy", "scipy", "statsmodels", "pandas", "matplotlib")
    return {"Python": platform.python_version(), **{name: version(name) for name in packages}}
