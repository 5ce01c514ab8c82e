"""Verdicts → a folder: a page that answers the question, the same in Markdown, and every number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from analysis.evidence import Context, Evidence
from analysis.reports.answer import FirstScreen, first_screen, is_simulated
from analysis.reports.columns import group_name
from analysis.reports.files import verdicts_csv
from analysis.reports.methods import limitations, methods
from analysis.reports.questions import Question, questions
from analysis.reports.results import Results
from analysis.sections import by_column
from analysis.sections.section import Section, frame_of
from analysis.verdicts.scores import by_cell, with_judges
from analysis.verdicts.tidy import UNKNOWN_KIND
from guard_eval.errors import StudyError
from guard_eval.records import Pair
from guard_eval.reporting.data import frame_csv, to_json
from guard_eval.reporting.rendering import render
from guard_eval.reporting.words import title, titled
from guard_eval.reporting.writing import write_folder

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, kw_only=True)
class WrittenReport:
    """What was written.

    Attributes:
        paths: Every file, index.html first.
        summary: The paragraph that answers the question.
    """

    paths: tuple[Path, ...]
    summary: str


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """Everything the templates print."""

    context: Context
    simulated: bool
    screen: FirstScreen
    questions: tuple[Question | Section, ...]
    examples: tuple[tuple[Pair, list[str]], ...]
    methods: tuple[str, ...]
    limits: tuple[str, ...]


def write_report(evidence: Evidence, folder: Path, *, paper: bool = False) -> WrittenReport:
    """Write index.html, report.md, report.json, csv/, prompts/ and, if wanted, paper/.

    The same input gives the same bytes.

    Args:
        evidence: The verdicts and their context.
        folder: Made if missing; files of an earlier report there are replaced.
        paper: Whether to write tables, a figure and the text for a manuscript.

    Raises:
        StudyError: The folder cannot be written, or a paper is wanted on raters of unknown kind.
    """
    context = evidence.context
    with titled(context.titles):
        results = Results(evidence)
        if paper and any(row.rater_kind == UNKNOWN_KIND for row in results.answering):
            raise StudyError(
                "nothing says whether these raters are people or models, so nothing is written for a paper; "
                "declare it: --set rater_kind=person (or model), or a column rater_kind"
            )
        screen = first_screen(results)
        page = ReportPage(
            context=context,
            simulated=is_simulated(results),
            screen=screen,
            questions=(*questions(results), *filter(None, [by_column.section(evidence)])),
            examples=tuple((pair, _verdicts_on(pair, evidence.frame)) for pair in context.examples),
            methods=methods(results),
            limits=limitations(results),
        )
        files: dict[str, str | bytes] = {
            name: render(_TEMPLATES / f"{name}.j2", page=page) for name in ("index.html", "report.md")
        }
        frames = results.exports()
        if context.by:
            frames |= {name: frame_of(analyse(evidence)) for name, analyse in by_column.CSV.items()}
        files["report.json"] = to_json({**_facts(context, screen), "tables": frames})
        files |= {f"csv/{name}.csv": frame_csv(frame) for name, frame in frames.items()}
        files["csv/verdicts.csv"] = verdicts_csv(evidence.frame)
        if context.judging is not None:
            files |= {
                f"prompts/{row['prompt']}-{row['id'][:8]}.txt": row["text"] for row in context.judging.prompts
            }
        if paper:
            # matplotlib is loaded only for a paper and for notebooks: it takes as long as a small report.
            from analysis.reports.paper import manuscript  # noqa: PLC0415

            files |= manuscript(results)
    return WrittenReport(paths=write_folder(folder, files), summary=screen.summary)


def _facts(context: Context, screen: FirstScreen) -> dict[str, object]:
    return {
        "name": context.name,
        "question": context.question,
        "answer": screen.summary,
        "composite": None if context.composite is None else dict(context.composite.weights),
        "exploratory_because": list(context.why_exploratory),
        "seed": context.seed,
        "study_hash": context.study_hash,
        "parts": [asdict(part) for part in context.parts],
        "versions": dict(context.versions),
    }


def _verdicts_on(pair: Pair, frame: pd.DataFrame) -> list[str]:
    """Return, per criterion and who judged, how many verdicts each continuation of a pair got."""
    methods: Sequence[str] = (pair.method_a, pair.method_b)
    example = frame[
        (frame["pair_id"] == pair.id) & frame["method_a"].isin(methods) & frame["method_b"].isin(methods)
    ]
    counted = []
    for cell, rows in by_cell(with_judges(example)):
        a, b = (int((rows["verdict"] == method).sum()) for method in methods)
        text = f"{pair.method_a} {a} · tie {len(rows) - a - b} · {pair.method_b} {b}"
        counted.append(f"{title(cell.criterion)} ({group_name(cell)}): {text}")
    return counted
