"""What a report says of its study: plan, metrics, examples, versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from analysis.reports.context import Context, MeasuredMetrics, versions
from analysis.verdicts.composite import Composite
from analysis.verdicts.family import with_composites
from analysis.verdicts.panel import JudgePanel
from guard_eval.cli.publication.preregister import preregistered
from guard_eval.cli.reporting.judges import judge_run
from guard_eval.errors import StudyError
from guard_eval.metrics.scores import METRICS
from guard_eval.records import PEOPLE_OF, Pair, RaterKind
from guard_eval.reporting.words import judged_by
from guard_eval.rubric import CRITERIA, Criterion, criteria, reworded
from guard_eval.store import Store, TidyRow
from guard_eval.study.folder import Study
from guard_eval.study.settings import Settings

EXAMPLES = 6
"""How many pairs the report shows side by side."""


def study_context(study: Study, store: Store, rows: Sequence[TidyRow]) -> Context:
    """Return the context of a study with these verdicts.

    Raises:
        StudyError: The tables of metrics cannot be read.
    """
    settings = study.settings
    asked = _asked(study)
    return Context(
        name=settings.name,
        question=settings.question,
        seed=settings.seed,
        study_hash=study.hash,
        stored_hash=store.study_hash(),
        criteria=tuple(each for each in asked if CRITERIA.get(each.name) != each),
        reworded=tuple(reworded(store.criteria(), asked)),
        declared=(*_compared_run(settings), *preregistered(study, store.pairs())),
        unfinished=_unfinished(settings, store.pairs(), rows),
        planned=_family(study, {row.rater_kind for row in rows}),
        alpha=settings.analysis.alpha,
        correction=settings.analysis.correction,
        margin=settings.analysis.equivalence_margin,
        sequential=settings.analysis.sequential,
        raters=settings.analysis.raters,
        raters_per_item=_raters_per_item(settings),
        assisted_by=settings.analysis.assisted_by,
        panel=_panel(settings),
        composite=None if settings.composite is None else Composite(weights=settings.composite),
        random_part=settings.pairs.human_pairs is not None,
        metrics=_read_metrics(study.metrics),
        examples=tuple(sorted(store.pairs(), key=lambda pair: pair.id)[:EXAMPLES]),
        judging=judge_run(study, store),
        failures=tuple(sorted(Counter(failure.kind for failure in store.failures()).items())),
        versions=versions(),
        settings=(study.folder / "study.toml").read_text(encoding="utf-8"),
        command=f"guard-eval report {study.folder.name}",
    )


def _asked(study: Study) -> tuple[Criterion, ...]:
    """Return the criteria that people or judges are asked."""
    settings = study.settings
    named = [settings.annotation.criteria, *(judge.criteria for judge in settings.judge)]
    return criteria(list(dict.fromkeys(chain.from_iterable(named))), settings.rubric)


def _compared_run(settings: Settings) -> tuple[str, ...]:
    """Return which of several texts a prompt was compared, in a sentence; nothing where there is one."""
    runs, pairs = settings.generation.runs, settings.pairs
    if runs == 1:
        return ()
    which = (
        f"run {pairs.run} was compared"
        if pairs.best_of_runs is None
        else f"the one with the highest {pairs.best_of_runs} was compared (of equals the seed decided)"
    )
    single = [name for name in dict.fromkeys(chain(*pairs.compare)) if settings.runs_of(name) == 1]
    others = f"; {', '.join(single)} {'writes' if len(single) == 1 else 'write'} one" if single else ""
    return (f"Of {runs} texts a prompt by each strategy {which}, as study.toml declares{others}.",)


def _panel(settings: Settings) -> JudgePanel | None:
    if settings.panel is None:
        return None
    members = settings.panel.members
    return JudgePanel(rule=settings.panel.rule, members=None if members is None else tuple(members))


def _raters_per_item(settings: Settings) -> dict[str, int]:
    """Return how many raters make an item complete; a judge is a result of its own."""
    people = settings.annotation.raters_per_pair
    return {"person": people, "simulated": people, "model": 1, "simulated_model": 1}


def _unfinished(settings: Settings, pairs: Sequence[Pair], rows: Sequence[TidyRow]) -> tuple[str, ...]:
    """Return what has still to be rated, in words: by people together, and by each judge."""
    ratings = sum(pair.for_people for pair in pairs) * settings.annotation.raters_per_pair
    rated: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in rows:
        judge = row.rater if row.rater_kind in PEOPLE_OF else ""
        rated.setdefault((row.rater_kind, judge), set()).add((row.pair_id, row.rater))
    return tuple(
        f"{judged_by(kind, judge)} gave {len(found)} of {planned} ratings"
        for (kind, judge), found in sorted(rated.items())
        if len(found) < (planned := len(pairs) if judge else ratings)
    )


def _family(study: Study, kinds: set[RaterKind]) -> tuple[tuple[str, str, str], ...]:
    """Return what study.toml declares for the kinds of raters that have rated.

    People and judges are asked different criteria, and Holm's correction is made for people and for each
    judge by itself.
    """
    settings = study.settings
    asked: dict[str, None] = {}
    if kinds - {"model"}:
        asked |= dict.fromkeys(settings.annotation.criteria)
    if "model" in kinds:
        asked |= dict.fromkeys(criterion for judge in settings.judge for criterion in judge.criteria)
    cells = tuple((a, b, criterion) for a, b in settings.pairs.compare for criterion in asked)
    return cells if settings.composite is None else with_composites(cells)


def _read_metrics(folder: Path) -> MeasuredMetrics | None:
    """Return the metrics that a report shows, with their intervals; None where nothing was measured."""
    try:
        wide = pd.read_csv(folder / "metrics.csv")
        scores = pd.read_csv(folder / "scores.csv")
        definitions = scores.groupby("metric")["signature"].unique()
        known = scores.dropna(subset=["low", "high"]).set_index(["dataset", "strategy", "metric"])
        limits = known[["low", "high"]].astype(float).to_numpy().tolist()
        intervals = {
            (str(dataset), str(strategy), str(metric)): (low, high)
            for (dataset, strategy, metric), (low, high) in zip(known.index, limits, strict=True)
        }
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise StudyError(
            f"cannot read the tables in {folder} ({error}); run guard-eval measure again"
        ) from error
    shown = [name for name in METRICS if name in wide.columns and wide[name].notna().any()]
    return MeasuredMetrics(
        table=wide[["dataset", "strategy", "texts", *shown]],
        intervals=intervals,
        level=float(known["level"].iloc[0]) if len(known) else 0.95,
        notes=tuple(
            f"{METRICS[name].title}: {METRICS[name].meaning} "
            f"({'; '.join(map(str, definitions.get(name, ())))})"
            for name in shown
        ),
    )
