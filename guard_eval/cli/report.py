"""`guard-eval report`: the verdicts as shares, tests, agreement, and a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report import Context, Example
    from guard_eval.records import Pair
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
) -> None:
    """Write the significance report: index.html, report.md, report.tex and every number as CSV."""
    from guard_eval.study import Study

    if source.is_dir():
        run(Study.open(source), output=output)
    else:
        run_file(source, output=output)


def run(study: Study, *, output: Path | None = None) -> Path:
    """Report on a study; return the page to open."""
    from dataclasses import asdict

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
        context = _context(
            study, store.pairs(), stored_hash=store.study_hash(), failures=_count_failures(store)
        )
    report = write_report(pd.DataFrame([asdict(row) for row in rows]), output or study.report, context)
    return _say_report(report.paths, report.summary)


def run_file(path: Path, *, output: Path | None = None) -> Path:
    """Report on a table of verdicts that need not come from a study; return the page to open."""
    from analysis.report import Context, write_report
    from analysis.tidy import read

    verdicts = read(path)
    context = Context(
        name=path.stem,
        question="Which of the compared strategies writes better continuations?",
        versions=_versions(),
        command=f"guard-eval report {path.name}",
    )
    report = write_report(verdicts, output or path.parent / f"{path.stem}-report", context)
    return _say_report(report.paths, report.summary)


def _say_report(paths: Sequence[Path], summary: str) -> Path:
    page = next(path for path in paths if path.name == "index.html")
    say(summary)
    say(f"\nreport: {page}")
    return page


def _context(
    study: Study, pairs: Sequence[Pair], *, stored_hash: str | None, failures: tuple[tuple[str, int], ...]
) -> Context:
    import pandas as pd

    from analysis.report import Context

    settings = study.settings
    asked = dict.fromkeys(
        [*settings.annotation.criteria, *(c for judge in settings.judge for c in judge.criteria)]
    )
    metrics = pd.read_csv(study.metrics_path) if study.metrics_path.exists() else None
    return Context(
        name=settings.name,
        question=settings.question,
        seed=settings.seed,
        study_hash=study.hash,
        stored_hash=stored_hash,
        planned=tuple((a, b, criterion) for a, b in settings.pairs.compare for criterion in asked),
        alpha=settings.analysis.alpha,
        metrics=metrics,
        examples=tuple(_example(pair) for pair in sorted(pairs, key=lambda pair: pair.id)[:EXAMPLES]),
        failures=failures,
        versions=_versions(),
        settings=(study.folder / "study.toml").read_text(encoding="utf-8"),
        command=f"guard-eval report {study.folder.name}",
    )


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


def _count_failures(store: object) -> tuple[tuple[str, int], ...]:
    from collections import Counter

    from guard_eval.store import Store

    assert isinstance(store, Store)
    return tuple(sorted(Counter(failure.kind for failure in store.failures()).items()))


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    packages = ("guard-eval", "numpy", "scipy", "pandas", "matplotlib")
    return {"Python": platform.python_version(), **{name: version(name) for name in packages}}
