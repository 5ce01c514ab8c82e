"""Which of a prompt's texts is compared, where study.toml has the best by a metric chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing

from guard_eval.cli.console import count_of, say
from guard_eval.cli.measuring.job import study_models
from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.measure import measure
from guard_eval.metrics.outcomes import ResampledSum
from guard_eval.records import Continuation, Prompt, content_id
from guard_eval.study.folder import Study
from guard_eval.texts.generations import HUMAN, generation_of


def best_texts(
    study: Study, metric: str, runs: Mapping[int, Mapping[str, Continuation]], prompts: Mapping[str, Prompt]
) -> dict[str, Continuation]:
    """Return of each prompt's texts by one strategy the one with the highest value of a metric.

    A text whose value is undefined (too short for it) loses to any other. Of equal ones a hash of the seed,
    the prompt's id and the run decides.

    Args:
        study: Whose models score, and whose seed decides.
        metric: One that each text has a value of.
        runs: The strategy's texts, by run and prompt id.
        prompts: By id.

    Raises:
        StudyError: The metric's model is not available, or the texts have nothing that it needs.
    """
    settings, seed = study.settings.metrics.model_copy(update={"compute": [metric]}), study.settings.seed
    ranked: dict[str, list[tuple[float, str, int]]] = {}
    with closing(ScoreCache(study.metrics / "scores.sqlite")) as cache:
        for run, texts in runs.items():
            found = measure(
                [generation_of(one, prompts[name]) for name, one in texts.items()],
                settings,
                models=study_models(study),
                cache=cache,
            )
            if found.about.failures:
                raise StudyError(f"pairs.best_of_runs: {'; '.join(found.about.failures)}")
            values = _values(found.outcomes, {name: prompts[name].dataset for name in texts})
            for name, value in values.items():
                ranked.setdefault(name, []).append((value, content_id(seed, "run", name, run), run))
    undefined = sum(max(one)[0] == -math.inf for one in ranked.values())
    if undefined:
        say(f"{count_of(undefined, 'prompt')} without a text that has a {metric}: the seed chose there")
    return {name: runs[max(one)[2]][name] for name, one in ranked.items()}


def _values(outcomes: Mapping[tuple[str, str, str], object], datasets: Mapping[str, str]) -> dict[str, float]:
    """Return each prompt's value, −inf where it is undefined, of outcomes of one run of one strategy."""
    values = dict.fromkeys(datasets, -math.inf)
    for (_, dataset, strategy), outcome in outcomes.items():
        if strategy == HUMAN or not isinstance(outcome, ResampledSum):
            continue
        ids = sorted(name for name, where in datasets.items() if where == dataset)
        for name, value in zip(ids, outcome.function(outcome.parts).tolist(), strict=True):
            values[name] = value if math.isfinite(value) else -math.inf
    return values
