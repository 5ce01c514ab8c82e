"""The public functions as a program uses them: mypy checks it (`mypy` in pyproject.toml), nothing runs it."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

import analysis
from analysis import agreement, figures, ranking, read, shares
from analysis.planning.equivalence import EquivalenceNeed, equivalence_needs
from analysis.planning.question import PlanningQuestion
from analysis.results.equivalence import equivalence_rows
from analysis.results.shares import share_rows
from guard_eval.cli.commands import (
    MeasureOptions,
    ReplicationOptions,
    generate,
    import_files,
    measure,
    measure_files,
    merge,
    pair,
    power,
    progress,
    publish,
    replicate,
    report,
    verdicts,
)
from guard_eval.metrics.scores import Results
from guard_eval.records import Continuation, Pair
from guard_eval.study.folder import Study
from guard_eval.texts.current import current_texts
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard


def a_study(folder: Path) -> str:
    """Run a study up to its report; return what it says."""
    study = Study.open(folder)
    sizes: dict[str, int] = publish(study, folder / "published", include=["comments"], dry_run=bool(folder))
    assert sizes
    generate(study, strategies=["guard"], shard=Shard.parse("1/2"))
    generate(study, engine="ray", workers=2)
    missing: dict[str, int] = {one.strategy: len(one.missing) for one in merge(study, [Path("other")])}
    assert not any(missing.values())
    texts: dict[str, dict[str, Continuation]] = current_texts(
        study, study.settings.generation.strategies, read_prompts(study.prompts_path)
    )
    lengths = [text.new_tokens for made in texts.values() for text in made.values()]
    results: Results | None = measure(study, MeasureOptions(settings={"baseline": "greedy"}, device="cpu"))
    assert results is not None
    scores: list[tuple[str, float | None, float | None]] = [
        (one.strategy, one.low, one.high) for one in results.scores if one.metric == "diversity"
    ]
    pairs: list[Pair] = pair(study)
    counted: int = progress(study).counted
    table: pd.DataFrame = verdicts(study)
    return f"{sum(lengths)} {scores} {len(pairs)} {counted} {len(table)} {report(study).summary}"


def tables_and_files() -> list[Path]:
    """Report on a table, measure a file of texts, make a table of the paper, plan a study."""
    imported: pd.DataFrame | None = import_files([Path("annotations.json")], Path("verdicts.csv")).verdicts
    assert imported is not None
    measure_files([Path("texts.jsonl")], MeasureOptions(settings={"compute": ["diversity"]}))
    replicate("lambda", Path("made"), ReplicationOptions(models=("bundled",), limit=10))
    plan = power(PlanningQuestion(share=0.6, raters=(3, 5)))
    assert all(need.raters in {3, 5} for need in plan.needs)
    return [*report(Path("verdicts.csv"), Path("out"), rater_kind="model").paths]


def claims(table: pd.DataFrame) -> list[tuple[str, float | None, str]]:
    """Correct for criteria that repeat each other, and say which shares are within 5 points of one half."""
    rows = share_rows(table, correction="max-t", seed=7)
    near = equivalence_rows(rows, margin=0.05, correction="max-t")
    needs: tuple[EquivalenceNeed, ...] = equivalence_needs(PlanningQuestion(raters=(3,)), 0.05)
    assert all(need.power in {0.8, 0.9} for need in needs)
    return [(row.criterion, row.adjusted, row.conclusion) for row in near]


def in_a_notebook(path: Path) -> str:
    """Return frames and figures of a table, and write its report."""
    table: pd.DataFrame = read(path)
    found: pd.DataFrame = shares(table, family=["fluency"], alpha=0.01)
    drawn: dict[str, Figure] = figures(table, texts="translations")
    drawn["shares-1"].savefig("shares.png")
    ranks: pd.DataFrame = ranking(table, seed=3)
    counted = len(found) + len(ranks) + len(agreement(table))
    return f"{counted} {analysis.report(table, 'out', title='Translations').summary}"
