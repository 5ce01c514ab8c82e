"""The public functions as a program uses them: mypy checks it (`mypy` in pyproject.toml), nothing runs it."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

import analysis
from analysis import agreement, check_claim, figures, ranking, read, shares
from analysis.monitor.status import read_status
from analysis.planning.command import Plan, plan_study
from analysis.planning.formulas import Design
from analysis.publication.publish import PublishedStudy, publish
from analysis.replication.command import replicate
from analysis.reports.command import report
from analysis.reports.notebook import make_evidence
from analysis.reports.study_report import read_table_and_context
from analysis.sections.raters.agreement import AgreementRow
from analysis.sections.raters.agreement import measure_agreement as agreement_rows
from analysis.sections.results.shares import measure_total_shares
from guard_eval.generation.command import generate_texts
from guard_eval.metrics.command import measure
from guard_eval.metrics.scores import MeasurementResult
from guard_eval.store import Store
from guard_eval.study.folder import Study
from guard_eval.study.test_plan import TestPlan
from guard_eval.texts.pair import PairingResult, pair
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import find_texts
from guard_eval.texts.systems.matching import SystemTexts


def a_study(folder: Path) -> str:
    """Run a study up to its report; return what it says."""
    study = Study.open(folder)
    published: PublishedStudy = publish(study, folder / "published", allow=["Which"])
    assert published.verdicts
    generate_texts(study, strategy=["guard"], shard="1/2", engine="local")
    texts: dict[str, SystemTexts] = find_texts(
        study, study.settings.systems, read_prompts(study.prompts_path)
    )
    lengths = [len(text.text) for written in texts.values() for text in written.values()]
    results: MeasurementResult = measure(study, baseline="greedy")
    scores = [score.value for score in results.scores if score.metric == "diversity"]
    pairs: PairingResult = pair(study)
    state = read_status(folder, ())
    counted: int = state.ratings.counted if state.ratings else 0
    with Store.open_study(study) as store:
        table, _ = read_table_and_context(study, store)
    return f"{sum(lengths)} {scores} {pairs.count} {counted} {len(table)} {report(study.folder).answer}"


def tables_and_files() -> list[Path]:
    """Report on a table, measure a file of texts, make a table of the paper, and plan a study."""
    measure(Path("texts.jsonl"), metrics=["diversity"], overrides=["metrics.level=0.9"])
    replicate("lambda", Path("made"), limit=10, overrides=["model.name=bundled"])
    plan: Plan = plan_study(Design(share=0.6), raters=(3, 5))
    assert [need.raters for need in plan.needs] == [3, 5]
    assert check_claim(wins=175, ties=140, losses=85, raters=4, pairs=100).claims[0].p < 0.05
    return [report(Path("verdicts.csv"), output=Path("out"), overrides=["rater_kind=model"]).page]


def claims(table: pd.DataFrame) -> list[object]:
    """Correct for many results, and say which shares are within 5 points of one half."""
    rows: pd.DataFrame = shares(table, correction="bh", margin=0.05, seed=7)
    return list(rows["p_adjusted"])


def in_a_notebook(path: Path) -> str:
    """Return frames and figures of a table, and write its report."""
    table: pd.DataFrame = read(path)
    result: pd.DataFrame = shares(table, family=["fluency"], alpha=0.01)
    drawn: dict[str, Figure] = figures(table, texts="translations")
    drawn["shares-1"].savefig("shares.png")
    ranks: pd.DataFrame = ranking(table, seed=3)
    counted = len(result) + len(ranks) + len(agreement(table))
    return f"{counted} {analysis.report(table, 'out', title='Translations').summary}"


def sections_of(path: Path) -> list[float]:
    """Read the rows of two analyses, whose classes mypy knows, under a plan."""
    evidence = make_evidence(path, alpha=0.01)
    rows: Sequence[AgreementRow] = evidence.rows(agreement_rows)
    plan: TestPlan = evidence.plan
    certain: list[str] = [
        row.leader for row in evidence.rows(measure_total_shares) if row.is_significant(plan.alpha)
    ]
    return [row.fleiss_kappa.low for row in rows if row.fleiss_kappa.low is not None and certain]
