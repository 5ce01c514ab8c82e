"""The length of texts, in words and tokens, and the time to generate them."""

import math
from collections.abc import Iterator, Sequence

from guard_eval.metrics.outcomes import (
    Group,
    Outcome,
    make_outcome_from_run_values,
    make_outcome_from_text_values,
)
from guard_eval.metrics.scoring_models import MetricTools
from guard_eval.records import HUMAN

SHARED_TIME = "texts of one batch share its time, so there is no interval over prompts"


def yield_outcomes(
    groups: Sequence[Group],
    metrics: Sequence[str],
    _: MetricTools,
) -> Iterator[Outcome]:
    """Yield the lengths of each group's texts. For texts by a model, also yield the speed."""
    for group in groups:
        written = group.strategy != HUMAN
        if "length" in metrics:
            yield from _yield_lengths(group, by_model=written)
        if "speed" in metrics and written:
            yield from _yield_speeds(group)


def _yield_lengths(group: Group, *, by_model: bool) -> Iterator[Outcome]:
    """Yield the words per text and, if known, the tokens per text and the share of finished texts."""
    words = [len(text.text.split()) for text in group.texts]
    signature = "words|tokens:whitespace|mean over all texts, empty ones too"
    yield make_outcome_from_text_values("words", group, words, signature=signature)
    if not by_model:
        return
    values: dict[str, Sequence[float | None]] = {
        "tokens": [text.tokens for text in group.texts],
        "ended": [None if text.ended is None else 100.0 * text.ended for text in group.texts],
    }
    for metric, series in values.items():
        if any(value is not None for value in series):  # a file of texts may lack these values
            numbers = [math.nan if value is None else value for value in series]
            yield make_outcome_from_text_values(
                metric, group, numbers, signature=f"{metric}|as generated|mean over texts"
            )


def _yield_speeds(group: Group) -> Iterator[Outcome]:
    """Yield the tokens per second and the time per text of all runs together, if times are known."""
    timed = [text for text in group.texts if text.seconds]
    if not timed:
        return
    seconds = math.fsum(text.seconds or 0.0 for text in timed)
    speeds = {"seconds_per_text": seconds / len(timed)}
    tokens = [text.tokens for text in timed if text.tokens is not None]
    if len(tokens) == len(timed):
        speeds["tokens_per_second"] = sum(tokens) / seconds
    for metric, value in speeds.items():
        signature = f"{metric}|wall time of batches|{_describe_hardware(group)}"
        yield make_outcome_from_run_values(
            metric, group, [value], n=len(timed), note=SHARED_TIME, signature=signature
        )


def _describe_hardware(group: Group) -> str:
    """Name the devices and the largest batch size of a group's texts, if they are known."""
    devices = sorted({text.device for text in group.texts if text.device})
    largest = max((text.batch or 0 for text in group.texts), default=0)
    rows = f"up to {largest} at once" if largest else ""
    return ", ".join(filter(None, (" and ".join(devices), rows)))
