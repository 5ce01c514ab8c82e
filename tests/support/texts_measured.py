"""Texts to measure, and functions that measure them without models."""

from contextlib import closing, nullcontext
from dataclasses import replace

from guard_eval.errors import StudyError
from guard_eval.metrics.measurement import measure_generations
from guard_eval.metrics.scoring_models import MetricTools, ScoreCache
from guard_eval.records import Generation
from guard_eval.study.settings import MetricSettings

TEXT_ALONE = ["diversity", "repetition", "distinct", "self_bleu", "length", "speed"]


class NoModels:
    """Models that fail if a metric loads them."""

    def open(self, name, **_):
        raise StudyError(f"cannot load the model {name!r}")


def generation(text, prompt="p1", strategy="guard", dataset="d", **changes):
    text_made = Generation(
        prompt_id=prompt,
        dataset=dataset,
        strategy=strategy,
        text=text,
        prompt=f"prompt {prompt}",
        reference="people wrote this text here",
        tokens=7,
        finish="eos",
        seconds=0.5,
        batch=2,
        device="cpu",
    )
    return replace(text_made, **changes)


def measured(texts, *, compute=TEXT_ALONE, baseline=None, models=None, cache=None, **settings):
    measured = MetricSettings(compute=compute, baseline=baseline, **settings)
    with nullcontext(cache) if cache else closing(ScoreCache()) as scores:
        return measure_generations(
            texts, MetricTools(settings=measured, models=models or NoModels(), cache=scores)
        )


def score_of(results, metric, strategy="guard", dataset="d"):
    """Return the row of a score."""
    [score] = [
        row
        for row in results.scores
        if (row.metric, row.strategy, row.dataset) == (metric, strategy, dataset)
    ]
    return score
