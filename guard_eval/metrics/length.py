"""The length of texts, in words and in tokens, and the time it took to generate them."""

from __future__ import annotations

from guard_eval.metrics.groups import Group
from guard_eval.metrics.outcomes import Outcome, mean_outcome
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import HUMAN


def length_outcomes(group: Group, _: MetricSettings) -> list[Outcome]:
    """Return words per text and, where they are known, tokens and whether the model ended the text."""
    words = [float(len(text.text.split())) for text in group.texts]
    signature = "words|tokens:whitespace|mean over all texts, empty ones too"
    outcomes = [mean_outcome("words", group, words, signature=signature)]
    if group.strategy != HUMAN:
        tokens = [None if text.tokens is None else float(text.tokens) for text in group.texts]
        ended = [None if text.ended is None else 100.0 * text.ended for text in group.texts]
        for metric, values in (("tokens", tokens), ("ended", ended)):
            if any(value is not None for value in values):  # a file of texts may have neither
                signature = f"{metric}|as generated|mean over texts"
                outcomes.append(mean_outcome(metric, group, values, signature=signature))
    return outcomes


def speed_outcomes(group: Group) -> list[Outcome]:
    """Return the time per text and the tokens per second, where times are known."""
    timed = [text for text in group.texts if text.seconds]
    if not timed:
        return []
    seconds = sum(text.seconds or 0.0 for text in timed)
    values = {"seconds_per_text": seconds / len(timed)}
    if all(text.tokens is not None for text in timed):
        values["tokens_per_second"] = sum(text.tokens or 0 for text in timed) / seconds
    return [
        Outcome(
            metric=metric,
            value=value,
            n=len(timed),
            counts=group.counts,
            note="texts of one batch share its time, so there is no interval over prompts",
            signature=f"{metric}|wall time of batches|{generated_on(group)}",
        )
        for metric, value in values.items()
    ]


def generated_on(group: Group) -> str:
    """Return the devices and the largest batch of a group's texts; empty where unknown."""
    devices = sorted({text.device for text in group.texts if text.device})
    batches = [text.batch for text in group.texts if text.batch]
    rows = f"up to {max(batches)} at once" if batches else ""
    return ", ".join(part for part in (" and ".join(devices), rows) if part)
