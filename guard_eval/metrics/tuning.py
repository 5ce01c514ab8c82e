"""`measure --tune`: choose one setting of each strategy by the scores on the tuning prompts.

A score is a function of sums over prompts, so a score can be computed for resampled prompts or for a part of
the prompts. A bad choice does not make the comparison invalid, because the comparison uses other prompts.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from guard_eval.errors import StudyError
from guard_eval.estimate import Floats
from guard_eval.metrics.inference import Outcomes
from guard_eval.metrics.outcomes import group_texts, make_outcome_from_text_values
from guard_eval.metrics.scores import MeasurementResult
from guard_eval.records import TIE, Generation, Prompt, make_content_id, record
from guard_eval.reporting.escaping import Cell, make_csv
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import format_number
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.store import Store, settings
from guard_eval.store import pairs as store_pairs
from guard_eval.study import Study
from guard_eval.study.tuning import (
    FILE,
    JUDGE,
    LESS_IS_BETTER,
    Choice,
    Search,
    TriedSetting,
    Tuning,
)
from guard_eval.texts.pairing import make_pairs
from guard_eval.texts.tuning import hash_tuning_choice, read_tuning_verdicts

RESAMPLES = 1000
FOLDS = 10
"""For the expected best score, a tenth of the prompts scores the setting that the other prompts chose."""
DIGITS = 9
"""The number of decimals of rounded scores. Settings with equal rounded scores are tied."""

Weights = Mapping[str, Floats]
"""The weight of each prompt, by dataset: `[resamples, prompts]`."""
MOST_MISSING = 0.1
"""If a larger share of the judge's verdicts is missing, no setting is chosen."""
COMPUTED_BY = {"rep": "repetition", "words": "length", "tokens": "length", "ended": "length"}
"""The metric that computes a score, by the first part of the score's name, such as `rep` of `rep_2`."""
FirstTexts = Mapping[str, Mapping[str, Generation]]
"""The first text of each system for each prompt, by system and by the prompt's id."""


def list_metrics_of_tuning_rule(tuning_rule: Tuning) -> list[str]:
    """Return the names of the metrics that compute the scores of a tuning rule."""
    names = [score.partition("_")[0] for score in tuning_rule.scores if score != JUDGE]
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
            return replace(
                measured, lines=(line,), tables=(), next=(study.format_command("judge", "--tune"),)
            )
        outcomes |= judged
    grids = study.settings.grids
    fixed = [name for name in study.settings.systems if name not in chain(*grids.values())]
    sizes = Counter(prompt.dataset for prompt in prompts)
    searches = []
    for strategy, names in (grids | {name: [name] for name in fixed}).items():
        tried = TriedSettings(names=names, outcomes=outcomes, rule=rule, sizes=sizes)
        seed = int(make_content_id(study.settings.seed, "tuning", strategy), 16)
        searches.append(tried.choose_setting(strategy, seed=seed))
    digest = hash_tuning_choice(study, searches)
    _refuse_changed_choice(study, digest)
    head = ("strategy", "chosen", "name", "meets", "chosen_share", *rule.scores)
    rows: list[tuple[Cell, ...]] = [
        (
            search.strategy,
            setting.name == search.chosen,
            setting.name,
            setting.meets,
            setting.chosen_share,
            *setting.scores.values(),
        )
        for search in searches
        for setting in search.settings
    ]
    check_replaceable(study.folder / "tuning.csv", "strategy,chosen,")
    write_atomically(study.folder / "tuning.csv", make_csv([head, *rows]).encode())
    if unmet := [search.strategy for search in searches if not search.chosen]:
        conditions = " and ".join([f"a score of {rule.maximize}", *rule.where])
        raise StudyError(
            f"no setting of {', '.join(unmet)} has {conditions}; change tuning.where, or try other settings. "
            f"All scores are in {study.folder / 'tuning.csv'}"
        )
    choice = Choice(
        tuning=rule,
        rule=study.settings.tuning_rule_hash,
        hash=digest,
        prompts=[prompt.id for prompt in prompts],
        searches=searches,
    )
    write_atomically(study.folder / FILE, (choice.model_dump_json(indent=1) + "\n").encode())
    lines = [f"{strategy}: {choice.chosen[strategy]} was chosen" for strategy in grids]
    cells = tuple(
        (setting.name, *map(format_number, (setting.chosen_share, *setting.scores.values())))
        for search in searches
        for setting in search.settings
    )
    return replace(
        measured,
        tables=(Table(columns=("setting", *head[4:]), rows=cells, caption="Scores on the tuning prompts"),),
        lines=(*lines, choice.tuning_budgets_in_words, f"tuning: {study.folder / FILE}, tuning.csv"),
        warnings=(*measured.warnings, *choice.list_warnings()),
        next=(study.format_command("pair" if study.has_all_texts_in_files else "generate"),),
    )


def _compute_win_shares(
    study: Study,
    texts: FirstTexts,
    prompts: Sequence[Prompt],
) -> tuple[Outcomes, int]:
    """Return each setting's win share against the baseline, and the number 0.

    If too many verdicts of the judge are missing, return no win shares, and the number of missing verdicts.
    """
    compared = study.make_tuning_study()
    seed = study.settings.seed
    with Store.open_study(compared, create=True) as store:
        existing = store_pairs.read_pairs(store)
        pairs = make_pairs(prompts, texts, compared.settings.pairs, seed=seed, existing=existing)
        store_pairs.add_pairs(store, pairs, compared.hand_out_plan)
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
        outcome = make_outcome_from_text_values(JUDGE, group, [fmean(points) for points in scores])
        outcomes[JUDGE, group.dataset, group.strategy] = outcome
    return outcomes, 0


def _refuse_changed_choice(study: Study, choice: str) -> None:
    """Raise an error if the choice differs from the choice that existing verdicts used."""
    if not study.has_database:
        return
    with Store.open_study(study) as store:
        stored = [
            settings.read_settings_at_first_verdict(store, model_study) for model_study in study.declared
        ]
    if any(declared is not None and choice not in declared for declared in stored):
        raise StudyError(
            "this study already has verdicts for another choice of settings; undo the changes of study.toml "
            "and of the texts, or begin a new study"
        )


@record
class TriedSettings:
    """The settings of one strategy, with their scores on the tuning prompts.

    Attributes:
        names: The settings as signatures, such as `top_p(p=0.9)`, in the order of study.toml.
        outcomes: The scores of the settings of all strategies.
        rule: The rule in [tuning] that chooses a setting.
        sizes: The number of tuning prompts in each dataset.
    """

    names: Sequence[str]
    outcomes: Outcomes
    rule: Tuning
    sizes: Mapping[str, int]

    def choose_setting(self, strategy: str, *, seed: int) -> Search:
        """Choose the best setting that meets all conditions, or none if every setting violates a condition.

        A setting without alternatives is always chosen.

        Args:
            strategy: The strategy.
            seed: The seed of the resampling.
        """
        rng = np.random.default_rng(seed)
        # The first weights are those of the prompts as they are, and the others are those of resamples.
        weights = {}
        for dataset, n in self.sizes.items():
            resamples = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES)
            weights[dataset] = np.vstack([np.ones(n), resamples])
        ratings = self.compute_ratings(weights)
        best = find_best_settings(ratings)
        chosen = 0 if len(self.names) == 1 else best[0]
        scores = {name: self.average_metric_over_datasets(name, weights)[:1] for name in self.rule.scores}
        settings = [
            TriedSetting(
                name=name,
                scores={score: _average_finite_values(values[:, index]) for score, values in scores.items()},
                meets=bool(np.isfinite(ratings[0, index])),
                chosen_share=float(np.mean(best[1:] == index)),
            )
            for index, name in enumerate(self.names)
        ]
        return Search(
            strategy=strategy,
            chosen="" if chosen < 0 else self.names[chosen],
            settings=settings,
            expected_best=self.estimate_expected_best_score(rng),
        )

    def average_metric_over_datasets(self, metric: str, weights: Weights) -> Floats:
        """Return a metric's mean over datasets, `[resamples, settings]`. An undefined score is NaN."""
        resamples = len(next(iter(weights.values())))
        scores = np.zeros((resamples, len(self.names)))
        with np.errstate(divide="ignore", invalid="ignore"):
            for dataset, weight in weights.items():
                for index, setting in enumerate(self.names):
                    outcome = self.outcomes.get((metric, dataset, setting))
                    if outcome is None or outcome.parts is None:
                        scores[:, index] = np.nan
                    else:
                        scores[:, index] += outcome.function(weight @ outcome.parts)
        return scores / len(weights)

    def compute_ratings(self, weights: Weights) -> Floats:
        """Return a rating that is higher for a better setting, `[resamples, settings]`.

        A setting that violates a condition has −∞.
        """
        best = self.average_metric_over_datasets(self.rule.maximize, weights)
        meets = np.isfinite(best)
        for name, sign, limit in self.rule.conditions:
            values = np.round(self.average_metric_over_datasets(name, weights), DIGITS)
            if sign == ">=":
                meets &= values >= limit
            else:
                meets &= values <= limit
        direction = -1 if self.rule.maximize in LESS_IS_BETTER else 1
        rating = np.round(direction * best, DIGITS)
        return np.where(meets, rating, -np.inf)

    def estimate_expected_best_score(self, rng: np.random.Generator) -> list[float | None]:
        """Return the expected score of the best of m = 1, 2, … settings that are tried in random order.

        Dodge et al. (2019) report the score on the prompts that chose the setting. That score rises with m
        even if all settings are equally good. Here, most prompts choose and the other prompts score, so the
        score does not rise.
        """
        order = rng.random((RESAMPLES, len(self.names))).argsort(axis=1)
        scoring = {}
        for dataset, n in self.sizes.items():
            # In a random order, the first `n // FOLDS` prompts of each resample score. The others choose.
            ranks = rng.random((RESAMPLES, n)).argsort(axis=1).argsort(axis=1)
            scoring[dataset] = (ranks < max(1, n // FOLDS)).astype(float)
        choosing = {dataset: 1 - weight for dataset, weight in scoring.items()}
        ratings = self.compute_ratings(choosing)
        scores = self.average_metric_over_datasets(self.rule.maximize, scoring)
        curve = []
        for m in range(1, len(self.names) + 1):
            best = find_best_settings(np.where(order < m, ratings, -np.inf))
            scores_of_best = scores[np.arange(RESAMPLES), best]
            curve.append(_average_finite_values(scores_of_best[best >= 0]))
        return curve


def find_best_settings(ratings: Floats) -> NDArray[np.int64]:
    """Return the index of the best setting, or of the first tied setting, or −1 if all ratings are −∞."""
    has_candidate = np.isfinite(ratings).any(axis=1)
    return np.where(has_candidate, ratings.argmax(axis=1), -1)


def _average_finite_values(values: Floats) -> float | None:
    """Return the mean of the finite values, or None if no value is finite."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
