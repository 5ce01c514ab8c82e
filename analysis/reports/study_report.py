"""What a report says of its study: plan, metrics, examples, exclusions, versions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd

from analysis.analyses.evidence import Context, Exclusion, MeasuredMetrics, versions
from analysis.verdicts.combined import Composite, JudgePanel
from analysis.verdicts.family import with_composites
from analysis.verdicts.tidy import validate
from guard_eval.errors import StudyError
from guard_eval.metrics.scores import METRICS
from guard_eval.records import PEOPLE_OF, Pair, RaterKind
from guard_eval.reporting.words import judged_by
from guard_eval.rubric import CRITERIA, Criterion, criteria, reworded
from guard_eval.store import Store, TidyRow, raters, requests, unblind
from guard_eval.store import notes as store_notes
from guard_eval.store import pairs as store_pairs
from guard_eval.store import settings as store_settings
from guard_eval.study import Study
from guard_eval.study.declared import compare_declared
from guard_eval.study.settings import Settings
from guard_eval.texts.describe import plan_changes

EXAMPLES = 3
"""How many pairs the report shows side by side."""


def table_of(rows: Sequence[TidyRow]) -> pd.DataFrame:
    """Return rows as a table, column by column: a dict for each of a million verdicts takes a minute."""
    return pd.DataFrame({name.name: [getattr(row, name.name) for row in rows] for name in fields(TidyRow)})


def study_verdicts(study: Study) -> pd.DataFrame:
    """Return the verdicts of a study that count, validated.

    Raises:
        StudyError: There are none.
    """
    with Store.open(study.database) as store:
        return validate(table_of(_rows(study, store)))


def _rows(study: Study, store: Store) -> list[TidyRow]:
    if rows := unblind.tidy(store):
        return rows
    collect = f"{study.command('annotate')} or {study.command('judge')}"
    raise StudyError(f"{study.folder} has no verdicts yet; collect some: {collect}")


def read_study(study: Study, *, seen: bool = False) -> tuple[pd.DataFrame, Context]:
    """Return the verdicts of a study, and the context of its report.

    Args:
        study: The study.
        seen: Whether the results are now seen, so that later exclusions are known to be later.

    Raises:
        StudyError: There are no verdicts, or the tables of metrics cannot be read.
    """
    with Store.open(study.database, declared=study.declared) as store:
        rows = _rows(study, store)
        context = study_context(study, store, rows)
        if seen:
            with suppress(StudyError):  # a database that cannot be written has no later exclusions either
                store_settings.set_results_seen(store)
    return validate(table_of(rows)), context


def study_context(study: Study, store: Store, rows: Sequence[TidyRow]) -> Context:
    """Return the context of a study with these verdicts."""
    settings, pairs = study.settings, store_pairs.read(store)
    asked = _asked(settings)
    everybody = unblind.tidy(store, include_excluded=True)
    return Context(
        name=settings.name,
        question=settings.question,
        seed=settings.seed,
        study_hash=study.hash,
        parts=compare_declared(
            study.declared, {part: store_settings.declared(store, part) for part in study.declared}
        ),
        criteria=tuple(each for each in asked if CRITERIA.get(each.name) != each),
        reworded=tuple(reworded(store_settings.criteria(store), asked)),
        declared=(*_compared_run(settings), *plan_changes(study, pairs)),
        unfinished=_unfinished(settings, pairs, rows),
        planned=_family(settings, {row.rater_kind for row in rows}),
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
        examples=tuple(sorted(pairs, key=lambda pair: pair.id)[:EXAMPLES]),
        judging=resolve_name("judge.usage:judge_usage")(study, store) if settings.judge else None,
        failures=_failures(store),
        exclusions=_exclusions(store, everybody),
        with_excluded=validate(table_of(everybody)) if any(row.excluded for row in everybody) else None,
        versions=versions(),
        settings=(study.folder / "study.toml").read_text(encoding="utf-8"),
        command=study.command("report"),
    )


def _failures(store: Store) -> tuple[tuple[str, int], ...]:
    """Return how many questions to judges have no verdict, by kind of failure."""
    with store.read() as db:
        failures = requests.read_failures(db)
    return tuple(sorted(Counter(kind for kind, _ in failures.values()).items()))


def _exclusions(store: Store, everybody: Sequence[TidyRow]) -> tuple[Exclusion, ...]:
    """Return the raters who are excluded, with the latest reason of each."""
    seen = store_settings.read(store, store_settings.RESULTS_SEEN)
    lost = Counter(row.rater for row in everybody if row.excluded)
    notes = {note.rater: note for note in store_notes.read(store, kind="exclude")}
    return tuple(
        Exclusion(
            rater=rater.name,
            rater_kind=rater.kind,
            reason=json.loads(notes[rater.name].detail)["reason"],
            at=notes[rater.name].at.isoformat(),
            results="after" if seen is not None and notes[rater.name].at.isoformat() > seen else "before",
            verdicts=lost[rater.name],
        )
        for rater in raters.read(store)
        if rater.state == "excluded" and rater.name in notes
    )


def _asked(settings: Settings) -> tuple[Criterion, ...]:
    """Return the criteria that people or judges are asked."""
    named = [settings.annotation.criteria, *(judge.criteria for judge in settings.judge)]
    return criteria(list(dict.fromkeys(chain.from_iterable(named))), settings.rubric)


def _compared_run(settings: Settings) -> tuple[str, ...]:
    """Return which of several texts a prompt was compared, in a sentence; nothing if there is one."""
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
        f"{judged_by(kind, judge)} gave {len(counts)} of {planned} ratings"
        for (kind, judge), counts in sorted(rated.items())
        if len(counts) < (planned := len(pairs) if judge else ratings)
    )


def _family(settings: Settings, kinds: set[RaterKind]) -> tuple[tuple[str, str, str], ...]:
    """Return what study.toml declares for the kinds of raters that have rated.

    People and judges may be asked different criteria, and the correction is made for people and for each
    judge apart.
    """
    asked: dict[str, None] = {}
    if kinds - {"model"}:
        asked |= dict.fromkeys(settings.annotation.criteria)
    if "model" in kinds:
        asked |= dict.fromkeys(criterion for judge in settings.judge for criterion in judge.criteria)
    cells = tuple((a, b, criterion) for a, b in settings.pairs.compare for criterion in asked)
    return cells if settings.composite is None else with_composites(cells)


def _read_metrics(folder: Path) -> MeasuredMetrics | None:
    """Return the metrics that a report shows, with their intervals; None if nothing was measured."""
    try:
        scores = pd.read_csv(folder / "scores.csv")
        table = scores.pivot_table(
            index=["dataset", "strategy"], columns="metric", values="value", sort=False, dropna=False
        )
        texts = scores.groupby(["dataset", "strategy"], sort=False)["n"].max().rename("texts")
        wide = table.join(texts).dropna(subset="texts").reset_index()
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
        notes=tuple(f"{METRICS[name].title}: {METRICS[name].meaning}" for name in shown),
    )
