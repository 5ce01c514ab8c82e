"""`measure --tune`: score all settings on the tuning prompts, and write down which one of each was chosen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from guard_eval.errors import StudyError
from guard_eval.metrics.choice import SettingScores, search_settings
from guard_eval.metrics.measurement import MeasuredTexts
from guard_eval.metrics.outcomes import Outcome, Outcomes
from guard_eval.metrics.scores import METRICS, Measured
from guard_eval.records import TIE, Prompt, content_id
from guard_eval.reporting.data import frame_csv
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import number, percent
from guard_eval.reporting.writing import write_whole
from guard_eval.store import Store, settings
from guard_eval.store import pairs as store_pairs
from guard_eval.study import Study
from guard_eval.study.choice import FILE, Choice, Search
from guard_eval.study.tuning_settings import COMPUTED_BY, JUDGE, Tuning
from guard_eval.texts.matching import SystemTexts
from guard_eval.texts.pairing import draw_prompts, make_pairs
from guard_eval.texts.systems import explain_missing
from guard_eval.texts.tuning import hash_choice, read_judged

MOST_MISSING = 0.1
"""The share of its judgments that a judge may have failed to give before settings are chosen."""


def metrics_of(rule: Tuning) -> list[str]:
    """Return the metrics that compute the scores of a rule."""
    scores = [score for score in rule.scores if score != JUDGE]
    return list(dict.fromkeys(COMPUTED_BY.get(score, score) for score in scores))


def check_complete(study: Study, texts: Mapping[str, SystemTexts], prompts: Sequence[Prompt]) -> None:
    """Raise a `StudyError` if a system lacks a text to a tuning prompt."""
    for name, each in texts.items():
        missing = [prompt.id for prompt in prompts if (prompt.id, 1) not in each]
        if missing and (name in study.settings.systems):
            raise StudyError(
                f"{name} lacks {len(missing)} of {len(prompts)} texts that choose the settings, such as "
                f"{missing[0]!r}; {explain_missing(study, name)}"
            )


def choose_settings(
    study: Study, measured: MeasuredTexts, texts: Mapping[str, SystemTexts], prompts: Sequence[Prompt]
) -> Measured:
    """Choose a setting of each strategy, and write tuning.csv and tuning.json.

    Args:
        study: The study.
        measured: The scores of all systems on the tuning prompts.
        texts: The texts of all systems to these prompts.
        prompts: The tuning prompts.

    Raises:
        StudyError: No setting of a strategy meets the conditions, or verdicts rest on another choice.
    """
    rule = study.settings.rule
    outcomes = measured.outcomes
    if JUDGE in rule.tuning.scores:
        judged, missing = _judge_settings(study, texts, prompts)
        if missing:
            line = f"{missing} judgments of settings against the baseline are missing"
            return replace(measured, lines=(line,), tables=(), next=(study.command("judge", "--tune"),))
        outcomes = {**outcomes, **judged}
    sizes = Counter(prompt.dataset for prompt in prompts)
    datasets = sorted(sizes)
    fixed = [
        name for name in study.settings.systems if name not in {n for g in rule.grids.values() for n in g}
    ]
    searches = []
    problems = []
    for strategy, names in {**rule.grids, **{name: [name] for name in fixed}}.items():
        scored: dict[str, SettingScores] = {
            name: {
                score: [outcomes[score, dataset, name] for dataset in datasets]
                for score in rule.tuning.scores
            }
            for name in names
        }
        search = search_settings(
            strategy,
            scored,
            rule.tuning,
            sizes=[sizes[dataset] for dataset in datasets],
            seed=int(content_id(rule.seed, "tuning", strategy), 16),
        )
        if strategy in fixed:
            search = search.model_copy(update={"chosen": strategy})
        elif not search.chosen:
            problems.append(_explain(search, scored, rule.tuning))
        searches.append(search)
    frame = pd.DataFrame([row for search in searches for row in _rows(search)])
    write_whole(study.folder / "tuning.csv", frame_csv(frame))
    if problems:
        raise StudyError("\n  ".join(problems))
    choice = Choice(
        rule=rule,
        hash=hash_choice(study, prompts),
        prompts=[prompt.id for prompt in prompts],
        searches=searches,
    )
    _refuse_change(study, choice)
    write_whole(study.folder / FILE, (choice.model_dump_json(indent=1) + "\n").encode())
    chosen = [f"{strategy}: {name} was chosen" for strategy, name in choice.chosen.items()]
    return replace(
        measured,
        lines=(*chosen, choice.budget, f"tuning: {study.folder / FILE}, tuning.csv"),
        tables=(_table(searches, rule.tuning),),
        warnings=(*measured.warnings, *choice.warnings()),
        next=(study.command("generate"),),
    )


def _judge_settings(
    study: Study, texts: Mapping[str, SystemTexts], prompts: Sequence[Prompt]
) -> tuple[Outcomes, int]:
    """Return the win shares of all settings against the baseline, or how many judgments are missing."""
    compared = study.of_tuning()
    first = {name: {prompt.id: texts[name][prompt.id, 1] for prompt in prompts} for name in texts}
    drawn = draw_prompts(prompts, per_dataset=len(prompts), seed=study.settings.seed)
    with Store.open(compared.database, create=True) as store:
        existing = store_pairs.read(store)
        couples = compared.settings.pairs.compare
        pairs = make_pairs(drawn, first, couples, seed=study.settings.seed, existing=existing)
        store_pairs.add(store, pairs, compared.plan)
    rows = read_judged(study)
    rated = {(row.pair_id, row.rater) for row in rows}
    wanted = len(pairs) * len(study.settings.judge)
    if len(rated) < (1 - MOST_MISSING) * wanted:
        return {}, wanted - len(rated)
    won: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        score = 50.0 if row.verdict == TIE else 100.0 * (row.verdict == row.method_a)
        won.setdefault((row.method_a, row.prompt_id), []).append(score)
    baseline = str(study.settings.metrics.baseline)
    outcomes = {}
    for name, dataset in {(name, prompt.dataset) for name in texts for prompt in prompts}:
        ids = sorted(prompt.id for prompt in prompts if prompt.dataset == dataset)
        tie = [50.0] if name == baseline else []
        shares = [won.get((name, prompt_id), tie) for prompt_id in ids]
        parts = np.array([[np.mean(each or [0.0]), float(bool(each))] for each in shares])
        outcomes[JUDGE, dataset, name] = Outcome(
            metric=JUDGE,
            dataset=dataset,
            strategy=name,
            places=np.arange(len(ids)),
            runs=1,
            value=None,
            n=len(ids),
            parts=parts,
        )
    return outcomes, 0


def _explain(search: Search, scored: Mapping[str, SettingScores], rule: Tuning) -> str:
    """Say why no setting of a strategy can be chosen."""
    notes = [each.note for scores in scored.values() for each in scores[rule.maximize] if each.parts is None]
    if len(notes) == len(scored):
        return f"no setting of {search.strategy} has a score of {rule.maximize}: {notes[0]}"
    conditions = " and ".join(rule.where)
    shown = "; ".join(
        f"{setting.name}: {', '.join(f'{name} {number(setting.scores[name])}' for name in names)}"
        for setting in search.settings
        for names in [dict.fromkeys(condition.score for condition in rule.conditions)]
    )
    return (
        f"no setting of {search.strategy} meets {conditions} ({shown}); change tuning.where before there are "
        "verdicts, or try other settings"
    )


def _refuse_change(study: Study, choice: Choice) -> None:
    """Refuse a choice that differs from the one that verdicts rest on."""
    if study.settings.database is None and not (study.folder / "study.db").exists():
        return
    with Store.open(study.database) as store:
        stored = [settings.declared(store, part) for part in study.declared]
    for declared in filter(None, stored):
        before = json.loads(declared).get("tuning")
        if before is None or before["choice"] not in {None, choice.hash}:
            raise StudyError(
                "there are verdicts that rest on another choice of settings, so it cannot change; take back "
                "what was changed in study.toml or in the texts, or begin a new study"
            )


def _rows(search: Search) -> Iterator[dict[str, object]]:
    for setting in search.settings:
        yield {
            "strategy": search.strategy,
            "setting": setting.name,
            **setting.scores,
            "meets_conditions": setting.meets,
            "chosen": setting.name == search.chosen,
            "chosen_share": setting.chosen_share,
        }


def _table(searches: Sequence[Search], rule: Tuning) -> Table:
    """Return all settings with their scores, the chosen ones in bold."""
    rows = [(search, setting) for search in searches for setting in search.settings]
    return Table(
        columns=("Strategy", "Setting", *map(_heading, rule.scores), "Chosen", "From other samples"),
        rows=tuple(
            (
                search.strategy,
                setting.name,
                *(number(setting.scores[name]) for name in rule.scores),
                "✓" * (setting.name == search.chosen),
                percent(setting.chosen_share, 0),
            )
            for search, setting in rows
        ),
        caption="Settings",
        note=" and ".join(rule.where),
        text_columns=2,
    )


def _heading(score: str) -> str:
    return METRICS[score].heading if score in METRICS else "win share (%)"
