"""Write a report into a folder: a page with the answer, the same page in Markdown, and all numbers."""

from dataclasses import asdict, field
from pathlib import Path

import pandas as pd

from analysis.evidence import Context, Evidence
from analysis.reports.first_screen import AnswerLine, FirstScreen, build_first_screen
from analysis.reports.sentences import describe_limitations, describe_methods
from analysis.scores.scores import add_judge_column, group_by_result
from analysis.sections import ANALYSES, SECTIONS
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.section import make_frame_from_rows, name_raters
from analysis.verdicts.checks import UNKNOWN_KIND
from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED, Pair, record
from guard_eval.reporting.data import make_csv_from_frame, to_json
from guard_eval.reporting.escaping import escape_html
from guard_eval.reporting.rendering import render
from guard_eval.reporting.words import find_criterion_title, use_criterion_titles
from guard_eval.reporting.writing import write_folder

UNKNOWN_RATERS = (
    "it is unknown whether the raters are people or models, so no files for a paper are written. Declare "
    "their kind with --set rater_kind=person (or model), or add a column rater_kind"
)


@record
class WrittenReport:
    """The files of a report. A notebook shows the answer.

    Attributes:
        question: The question that the report answers.
        summary: The paragraph that answers the question.
        results: The lines of the first screen.
        paths: Every file, index.html first.
    """

    question: str
    summary: str
    results: tuple[AnswerLine, ...] = field(repr=False)
    paths: tuple[Path, ...] = field(repr=False)

    def _repr_html_(self) -> str:
        page = self.paths[0]
        parts = [
            f"<p><strong>{escape_html(self.question)}</strong></p>",
            f"<p>{escape_html(self.summary)}</p>",
            f'<p><a href="{escape_html(page)}">{escape_html(page)}</a></p>',
        ]
        return "\n".join(parts)


def write_report(evidence: Evidence, folder: Path, *, paper: bool = False) -> WrittenReport:
    """Write index.html, report.md, report.json, csv/, prompts/ and, if requested, paper/.

    The same input gives the same bytes.

    Args:
        evidence: The verdicts and their context.
        folder: The folder for the report. A missing folder is made; an earlier report in it is replaced.
        paper: Whether to write tables, a figure and the text for a manuscript.

    Raises:
        StudyError: The folder cannot be written, or files for a paper are requested but the kind of raters is
            unknown.
    """
    context = evidence.context
    with use_criterion_titles(context.titles):
        if paper and any(
            row.rater_kind == UNKNOWN_KIND for row in evidence.rows(select_rows_for_report_answer)
        ):
            raise StudyError(UNKNOWN_RATERS)
        screen = build_first_screen(evidence)
        page = _collect_page_content(evidence, screen)
        files: dict[str, str | bytes] = {
            name: render(__file__, name, page=page) for name in ("index.html", "report.md")
        }
        frames = build_result_frames(evidence)
        files["report.json"] = to_json({**_collect_report_facts(context, screen), "tables": frames})
        files |= {f"csv/{name}.csv": make_csv_from_frame(frame) for name, frame in frames.items()}
        files["csv/verdicts.csv"] = encode_verdicts_as_csv(evidence.frame)
        files |= {f"prompts/{row.file_name}": row.text for row in context.judging.prompts}
        if paper:
            # Loaded only for papers and notebooks: matplotlib takes as long to load as a small report.
            from analysis.reports.paper import write_manuscript  # noqa: PLC0415

            files |= write_manuscript(evidence)
            if context.people is not None:
                from analysis.reports.checklist import FILE_NAME, write_reviewer_checklist  # noqa: PLC0415

                files[f"paper/{FILE_NAME}"] = write_reviewer_checklist(context.people, evidence)
    return WrittenReport(
        question=context.question,
        summary=screen.summary,
        results=tuple(line for bars in screen.bars for line in bars.lines),
        paths=write_folder(folder, files),
    )


def _collect_page_content(evidence: Evidence, screen: FirstScreen) -> dict[str, object]:
    """Return the content of the page for the templates, with all sections that have rows."""
    context = evidence.context
    sections = [section(evidence) for section in SECTIONS]
    return {
        "context": context,
        "screen": screen,
        "sections": [section for section in sections if section is not None],
        "examples": [
            (pair, _format_verdict_counts_of_pair(pair, evidence.frame)) for pair in context.examples
        ],
        "methods": describe_methods(evidence),
        "limits": describe_limitations(evidence),
    }


def _format_verdict_counts_of_pair(pair: Pair, frame: pd.DataFrame) -> list[str]:
    """Count the verdicts for each text of a pair, by criterion and kind of rater."""
    methods = (pair.method_a, pair.method_b)
    example = frame[
        (frame["pair_id"] == pair.id) & frame["method_a"].isin(methods) & frame["method_b"].isin(methods)
    ]
    counted = []
    for key, rows in group_by_result(add_judge_column(example)):
        a, b = (int((rows["verdict"] == method).sum()) for method in methods)
        text = f"{pair.method_a} {a} · tie {len(rows) - a - b} · {pair.method_b} {b}"
        counted.append(f"{find_criterion_title(key.criterion)} ({name_raters(key)}): {text}")
    return counted


def build_result_frames(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Return the tables of csv/ and report.json that have rows."""
    frames = {name: make_frame_from_rows(evidence.rows(analyse)) for name, analyse in ANALYSES.items()}
    return {name: frame for name, frame in frames.items() if len(frame)}


def _collect_report_facts(context: Context, screen: FirstScreen) -> dict[str, object]:
    """Return the facts for report.json."""
    return {
        "name": context.name,
        "question": context.question,
        "answer": screen.summary,
        "composite": context.plan.composite,
        "exploratory_because": list(context.exploratory_reasons),
        "seed": context.seed,
        "study_hash": context.study_hash,
        "parts": [asdict(settings) for settings in context.parts],
        "versions": dict(context.versions),
    }


def encode_verdicts_as_csv(frame: pd.DataFrame) -> bytes:
    """Return the verdicts as CSV, with the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")
    table.insert(0, "simulated", frame["rater_kind"].isin(SIMULATED))
    return make_csv_from_frame(table)
