"""Texts to be measured, and what measures them without models."""

from dataclasses import replace

from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.measurement import measure_generations
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import Generation

TEXT_ALONE = ["diversity", "repetition", "distinct", "self_bleu", "length", "speed"]


class NoModels:
    """Models that must not be loaded."""

    def causal(self, name):
        raise StudyError(f"cannot load the model {name!r}")

    encoder = causal


def generation(text, prompt="p1", strategy="guard", dataset="d", **changes):
    made = Generation(
        prompt_id=prompt,
        dataset=dataset,
        strategy=strategy,
        text=text,
        prompt=f"prompt {prompt}",
        reference="people wrote this text here",
        tokens=7,
        ended=True,
        seconds=0.5,
        batch=2,
        device="cpu",
    )
    return replace(made, **changes)


def measured(texts, *, compute=TEXT_ALONE, baseline=None, **settings):
    return measure_generations(
        texts,
        MetricSettings(compute=compute, baseline=baseline, **settings),
        seed=3,
        models=NoModels(),
        cache=ScoreCache(),
    )
