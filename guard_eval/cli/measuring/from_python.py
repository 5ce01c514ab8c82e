"""Metrics of texts that a program or a notebook has just made: `guard_eval.measure`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from guard_eval.cli.measuring.job import ScoringModels, measure_generations
from guard_eval.engines.library import Texts
from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.study.folder import locate_model
from guard_eval.study.problems import problems_of
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import generation_of

_WITHOUT_MODELS = ("diversity", "repetition", "distinct", "self_bleu", "length")


def measure(
    *texts: Texts,
    compute: Sequence[str] = _WITHOUT_MODELS,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,  # noqa: ANN401 (what study.toml's [metrics] may hold)
) -> pd.DataFrame:
    """Return the scores of texts: a row for each metric and strategy, with its interval over prompts.

    Args:
        texts: What `generate` returned, for each strategy.
        compute: Which metrics; those named by default need no model.
        seed: Of the resampling.
        device: Where scoring models run.
        settings: Further settings, as study.toml's table [metrics] has them.

    Raises:
        StudyError: There are no texts, a setting is not valid, or a metric could not be measured.
    """
    for one in texts:
        if not isinstance(one, Texts):
            raise StudyError(f"measure got a {type(one).__name__}; give it what generate returned")
    try:
        wanted = MetricSettings.model_validate({"compute": list(compute), **settings})
    except ValidationError as error:
        raise StudyError("; ".join(problems_of(error, MetricSettings))) from error
    with closing(ScoreCache(None)) as cache:
        found = measure_generations(
            [generation_of(one, prompt) for each in texts for prompt, one in each.with_prompts()],
            wanted,
            seed=seed,
            models=ScoringModels(locate=partial(locate_model, folder=Path()), device=device, dtype="auto"),
            cache=cache,
        )
    if found.failures:
        raise StudyError("\n".join(found.failures))
    columns = ["metric", "strategy", "value", "low", "high", "n", "note"]
    return pd.DataFrame([{name: getattr(score, name) for name in columns} for score in found.scores])
