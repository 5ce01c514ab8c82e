"""Metrics that need no model: diversity, repetition, distinct-n, self-BLEU, length and speed."""

from __future__ import annotations

import numpy as np

from guard_eval.generations import HUMAN
from guard_eval.metrics.distinct import distinct
from guard_eval.metrics.diversity import (
    ORDERS,
    SIGNATURES,
    diversity_of_sums,
    from_counts,
    ngram_counts,
    repetition_of_sums,
    textbook_diversity,
)
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.outcomes import Bare, Outcome, ratio_of, sum_of
from guard_eval.metrics.self_bleu import self_bleu
from guard_eval.settings import Metrics

_ONE_BATCH = "texts of one batch share its time, so there is no interval over prompts"


def text_outcomes(group: Group, settings: Metrics) -> list[Outcome]:
    """Return what `settings` ask for and texts alone can tell of a group."""
    measure = {
        "diversity": lambda: _diversity(group, settings.diversity),
        "repetition": lambda: _repetition(group),
        "distinct": lambda: _distinct(group, settings.level),
        "self_bleu": lambda: _self_bleu(group),
        "length": lambda: _length(group),
        "speed": lambda: _speed(group),
    }
    return [outcome for name in settings.compute if name in measure for outcome in measure[name]()]


def _diversity(group: Group, definition: str) -> list[Outcome]:
    texts = [text.text for text in group.texts]
    if definition == "textbook":
        values = textbook_diversity(texts)
        there = ~np.isnan(values)
        rows = group.summed(np.stack([np.where(there, values, 0), there], axis=1))
        counts = group.counts | nonzero({"shorter than four words": int((~there).sum())})
        signature = SIGNATURES[definition]
        n = int(there.sum())
        return [ratio_of("diversity", rows, n=n, counts=counts, signature=signature)]
    counted = ngram_counts(texts)
    whole = from_counts(counted, texts=len(texts))
    short = int((counted[:, -1] == 0).sum())
    return [
        sum_of(
            "diversity",
            group.summed(counted),
            diversity_of_sums,
            n=len(texts),
            counts=group.counts | nonzero({"shorter than five words": short}),
            signature=whole.signature,
            value=whole.diversity,
        )
    ]


def _repetition(group: Group) -> list[Outcome]:
    counted = ngram_counts([text.text for text in group.texts])
    whole = from_counts(counted, texts=len(group.texts))
    rows = group.summed(counted)
    return [
        sum_of(
            f"rep_{n}",
            rows,
            lambda sums, n=n: repetition_of_sums(sums, n),  # type: ignore[misc]
            n=len(group.texts),
            counts=group.counts,
            signature=f"rep-{n}|tokens:whitespace|last:dropped|rounded2",
            value=whole.rep[n],
        )
        for n in ORDERS
    ]


def _distinct(group: Group, level: float) -> list[Outcome]:
    found = [(n, distinct([text.text for text in group.texts], n, level=level)) for n in (1, 2)]
    return [
        Bare(
            metric=f"distinct_{n}",
            value=one.value,
            low=one.low,
            high=one.high,
            n=one.texts,
            counts=group.counts,
            note="falls with the number of texts: only equal numbers compare",
            signature=one.signature,
        )
        for n, one in found
    ]


def _self_bleu(group: Group) -> list[Outcome]:
    found = self_bleu([text.text for text in group.texts])
    return [
        Bare(
            metric="self_bleu",
            value=found.value,
            n=found.texts,
            counts=group.counts | nonzero({"shorter than four words": found.too_short}),
            note="rises with the number of texts; each bears on all others, so there is no interval",
            signature=found.signature,
        )
    ]


def _length(group: Group) -> list[Outcome]:
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
            if table[:, 1].any():  # a file of texts may know of neither
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


def _speed(group: Group) -> list[Outcome]:
    timed = [text for text in group.texts if text.seconds]
    if not timed:
        return []
    seconds = sum(text.seconds or 0.0 for text in timed)
    values = {"seconds_per_text": seconds / len(timed)}
    if all(text.tokens is not None for text in timed):
        values["tokens_per_second"] = sum(text.tokens or 0 for text in timed) / seconds
    return [
        Bare(
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
