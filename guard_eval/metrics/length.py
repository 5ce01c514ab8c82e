"""Length of texts, in words and in tokens, and how long it took to generate them."""

from __future__ import annotations

import numpy as np

from guard_eval.metrics.groups import Group
from guard_eval.metrics.outcomes import Outcome, PointEstimate, ratio_of
from guard_eval.texts.generations import HUMAN

_ONE_BATCH = "texts of one batch share its time, so there is no interval over prompts"


def length_outcomes(group: Group) -> list[Outcome]:
    """Return words of a text and, where they are known, its tokens and whether the model ended it."""
    words = np.array([[len(text.text.split()), 1] for text in group.texts], dtype=float)
    signature = "words|tokens:whitespace|mean over all texts, empty ones too"
    found: list[Outcome] = [
        ratio_of("words", group.summed(words), n=len(words), counts=group.counts, signature=signature)
    ]
    if group.strategy != HUMAN:
        lengths = [(text.tokens or 0, text.tokens is not None) for text in group.texts]
        ended = [(100 * bool(text.ended), text.ended is not None) for text in group.texts]
        for metric, rows in (("tokens", lengths), ("ended", ended)):
            table = np.array(rows, dtype=float)
            if table[:, 1].any():  # a file of texts may have neither
                found.append(
                    ratio_of(
                        metric,
                        group.summed(table),
                        n=int(table[:, 1].sum()),
                        counts=group.counts,
                        signature=f"{metric}|as generated|mean over texts",
                    )
                )
    return found


def speed_outcomes(group: Group) -> list[Outcome]:
    """Return time per text and tokens per second, where times are known."""
    timed = [text for text in group.texts if text.seconds]
    if not timed:
        return []
    seconds = sum(text.seconds or 0.0 for text in timed)
    values = {"seconds_per_text": seconds / len(timed)}
    if all(text.tokens is not None for text in timed):
        values["tokens_per_second"] = sum(text.tokens or 0 for text in timed) / seconds
    return [
        PointEstimate(
            metric=metric,
            value=value,
            n=len(timed),
            counts=group.counts,
            note=_ONE_BATCH,
            signature=f"{metric}|wall time of batches|{made_on(group)}",
        )
        for metric, value in values.items()
    ]


def made_on(group: Group) -> str:
    """Return on which devices, and how many at once, a group's texts were made; empty where unknown."""
    devices = sorted({text.device for text in group.texts if text.device})
    batches = [text.batch for text in group.texts if text.batch]
    rows = f"up to {max(batches)} at once" if batches else ""
    return ", ".join(part for part in (" and ".join(devices), rows) if part)
