"""Describe a study on one page: its plan, the hashes that prove it, and what was collected.

A page from before the first verdict is a preregistration: `compare_with_written_plan` names later
differences.
"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from analysis.evidence import Evidence
from analysis.reports.checklist import FILE_NAME, PAGE_MARK, collect_rater_facts, write_reviewer_checklist
from analysis.reports.study_report import (
    HASH,
    HASH_MARK,
    PLAN,
    drop_open_round_verdicts,
    hash_plan_parts,
    make_study_context,
    make_verdict_table,
)
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text
from guard_eval.records import Pair, record
from guard_eval.reporting.rendering import render
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.results import Result
from guard_eval.rubric import select_criteria
from guard_eval.store import RaterProgress, Store, TidyRow, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study import Study

DESCRIPTION = "description.md"
"""The name of the page if it is written after the first verdict."""


@record
class Description(Result):
    """The description of a study.

    Attributes:
        path: The path of the page.
        hashes: The SHA-256 of the settings for people, the settings for each judge, and the drawn pairs.
        verdicts: The number of verdicts when the page was written; 0 makes it a preregistration.
    """

    path: Path
    hashes: dict[str, str]
    verdicts: int


def describe(study: Study, /, *, output: Path | None = None) -> Description:
    """Write one page with the plan of the study and what was collected.

    The file checklist.md beside the page answers the questions about people in reviewers' checklists.

    A page from before the first verdict is a preregistration for a registry such as OSF: its date and hashes
    show what was planned, and the report says whether settings or pairs changed later.

    Args:
        study: The study's folder.
        output: The file to write. Default: plan.md in the study, or description.md once there are verdicts.

    Raises:
        StudyError: A plan with other settings or pairs exists and would be overwritten.
    """
    pairs: list[Pair] = []
    rows: list[TidyRow] = []
    raters: list[RaterProgress] = []
    people = collect_rater_facts(study, None)
    evidence = None
    if study.has_database:
        with Store.open_study(study) as store:
            pairs = store_pairs.read_pairs(store)
            raters = store_raters.read_rater_progress(store)
            rows = unblind.read_tidy_rows(store, include_surplus=True, include_excluded=True)
            people = collect_rater_facts(study, store)
            if counted := drop_open_round_verdicts(store, unblind.read_tidy_rows(store)):
                evidence = Evidence.from_verdicts(
                    check_verdicts(make_verdict_table(counted)), make_study_context(study, store, counted)
                )
    path = output or study.folder / (DESCRIPTION if rows else PLAN)
    hashes = hash_plan_parts(study, pairs)
    line = f"{path}: the description"
    files: dict[Path, str] = {}
    if path.name == PLAN and path.exists():
        if dict(HASH.findall(read_text(path))) != hashes:
            raise StudyError(
                f"{path} describes other settings or pairs, and an existing plan is not replaced. Move the "
                "file, or name another file with --output"
            )
        line = f"{path} describes the present study and is unchanged"
    else:
        settings = study.settings
        rated = {row.rater for row in rows}
        page = render(
            __file__,
            "description.md",
            settings=settings,
            models=study.local_models,
            date=datetime.now(UTC).date(),
            hashes=hashes,
            pairs=pairs,
            verdicts=len(rows),
            counted=len(evidence.frame) if evidence else 0,
            days=sorted(row.at[:10] for row in rows),
            raters=Counter(rater.kind for rater in raters if rater.name in rated),
            excluded=sum(rater.state == "excluded" for rater in raters),
            criteria=select_criteria(settings.annotation.criteria, settings.rubric),
        )
        files[path] = page
    checklist = path.with_name(FILE_NAME)
    files[checklist] = write_reviewer_checklist(people, evidence)
    for file, mark in ((path, HASH_MARK), (checklist, PAGE_MARK)):
        if file in files:
            check_replaceable(file, mark, searched=len(files[file].encode()))
    for file, content in files.items():
        write_atomically(file, content.encode())
    return Description(
        path=path,
        hashes=hashes,
        verdicts=len(rows),
        lines=(line, f"{checklist}: answers on people, for a reviewer's checklist"),
        next=(study.format_command("status" if rows else "annotate"),),
    )
