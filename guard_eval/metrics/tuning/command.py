"""`measure --tune`: choose a setting of each strategy by the scores on the tuning prompts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean

from guard_eval.errors import StudyError
from guard_eval.metrics.inference import Outcomes
from guard_eval.metrics.outcomes import group_texts, make_mean_outcome
from guard_eval.metrics.scores import MeasurementResult
from guard_eval.metrics.tuning.choice import TriedSettings
from guard_eval.records import TIE, Prompt, make_content_id
from guard_eval.reporting.escaping import Cell, make_csv
from guard_eval.reporting.writing import write_atomically
from guard_eval.store import Store, settings
from guard_eval.store import pairs as store_pairs
from guard_eval.study import Study
from guard_eval.study.choice import FILE, Choice
from guard_eval.study.tuning_settings import JUDGE, Tuning
from guard_eval.texts.generations import Generation
from guard_eval.texts.pairing import make_pairs
from guard_eval.texts.tuning import hash_choice, read_tuning_verdicts

MOST_MISSING = 0.1
"""The largest share of missing judgments with which settings are still chosen."""
COMPUTED_BY = {"rep": "repetition", "words": "length", "tokens": "length", "ended": "length"}
"""The metric of a score, by the first part of the score's name, if the two names differ."""


FirstTexts = Mapping[str, Mapping[str, Generation]]
"""The first text of each system for each prompt, by system and by the prompt's id."""


def list_needed_metrics(rule: Tuning) -> list[str]:
    """Return the metrics that a rule needs."""
    names = [score.partition("_")[0] for score in rule.scores if score != JUDGE]
    return list(dict.fromkeys(COMPUTED_BY.get(name, name) for name in names))


def choose_settings(
    study: Study,
    measured: MeasurementResult,
    texts: FirstTexts,
    prompts: Sequence[Prompt],
) -> MeasurementResult:
    """Choose a setting of each strategy, and write tuning.csv and tuning.json.

    Args:
        study: The study.
        measured: The scores of all systems on the tuning prompts.
        texts: The first text of each system for each tuning prompt.
        prompts: The tuning prompts.

    Raises:
        StudyError: No setting of a strategy meets the conditions, or existing verdicts used another choice.
    """
    rule = study.settings.tuning
    assert rule is not None
    outcomes = dict(measured.outcomes)
    if JUDGE in rule.scores:
        judged, missing = _compute_win_shares(study, texts, prompts)
        if missing:
            line = f"{missing} judgments of settings against the baseline are missing"
            return replace(measured, lines=(line,), tables=(), next=(study.command("judge", "--tune"),))
        outcomes |= judged
    grids = study.settings.grids
    fixed = [name for name in study.settings.systems if name not in chain(*grids.values())]
    sizes = Counter(prompt.dataset for prompt in prompts)
    searches = []
    for strategy, names in (grids | {name: [name] for name in fixed}).items():
        tried = TriedSettings(names=names, outcomes=outcomes, rule=rule, sizes=sizes)
        seed = int(make_content_id(study.settings.seed, "tuning", strategy), 16)
        searches.append(tried.choose_setting(strategy, seed=seed))
    digest = hash_choice(study, searches)
    _refuse_changed_choice(study, digest)
    rows: list[dict[str, Cell]] = [
        {
            "strategy": search.strategy,
            "chosen": setting.name == search.chosen,
            **setting.model_dump(exclude={"scores"}),
            **setting.scores,
        }
        for search in searches
        for setting in search.settings
    ]
    table = make_csv([[*rows[0]], *(list(row.values()) for row in rows)])
    write_atomically(study.folder / "tuning.csv", table.encode())
    if unmet := [search.strategy for search in searches if not search.chosen]:
        conditions = " and ".join([f"a score of {rule.maximize}", *rule.where])
        raise StudyError(
            f"no setting of {', '.join(unmet)} has {conditions}; change tuning.where, or try other settings. "
            f"Their scores are in {study.folder / 'tuning.csv'}"
        )
    choice = Choice(
        tuning=rule,
        rule=study.settings.rule_hash,
        hash=digest,
        prompts=[prompt.id for prompt in prompts],
        searches=searches,
    )
    write_atomically(study.folder / FILE, (choice.model_dump_json(indent=1) + "\n").encode())
    lines = [f"{strategy}: {choice.chosen[strategy]} was chosen" for strategy in grids]
    return replace(
        measured,
        lines=(*lines, choice.budgets_in_words, f"tuning: {study.folder / FILE}, tuning.csv"),
        warnings=(*measured.warnings, *choice.list_warnings()),
        next=(study.command("generate"),),
    )


def _compute_win_shares(study: Study, texts: FirstTexts, prompts: Sequence[Prompt]) -> tuple[Outcomes, int]:
    """Return the win shares of all settings against the baseline, and 0.

    If too many judgments are missing, return no win shares, and the number of missing judgments.
    """
    compared = study.make_tuning_study()
    seed = study.settings.seed
    with Store.open(compared.database, create=True) as store:
        existing = store_pairs.read(store)
        pairs = make_pairs(prompts, texts, compared.settings.pairs.compare, seed=seed, existing=existing)
        store_pairs.add(store, pairs, compared.hand_out_plan)
    rows = read_tuning_verdicts(study)
    expected = len(pairs) * len(study.settings.judge)
    missing = expected - len({(row.pair_id, row.rater) for row in rows})
    if missing > MOST_MISSING * expected:
        return {}, missing
    won: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        points = {TIE: 50.0, row.method_a: 100.0}
        won[row.method_a, row.prompt_id].append(points.get(row.verdict, 0.0))
    outcomes = {}
    for group in group_texts(text for by_prompt in texts.values() for text in by_prompt.values()):
        scores = [won.get((text.strategy, text.prompt_id), [math.nan]) for text in group.texts]
        outcome = make_mean_outcome(JUDGE, group, [fmean(points) for points in scores])
        outcomes[JUDGE, group.dataset, group.strategy] = outcome
    return outcomes, 0


def _refuse_changed_choice(study: Study, choice: str) -> None:
    """Raise an error if the choice differs from the choice that existing verdicts used."""
    if study.settings.database is None and not (study.folder / "study.db").exists():
        return
    with Store.open(study.database) as store:
        stored = [settings.read_declared(store, model_study) for model_study in study.declared]
    if any(declared is not None and choice not in declared for declared in stored):
        raise StudyError(
            "existing verdicts used another choice of settings; undo the changes of study.toml and of the "
            "texts, or begin a new study"
        )
