"""The table of metrics: one row per dataset and strategy, and how it is written to metrics.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.metrics.diversity import SIGNATURE, diversity
from guard_eval.metrics.speed import speed
from guard_eval.records import Continuation


@dataclass(frozen=True, kw_only=True)
class MetricsRow:
    """The metrics of one strategy on one dataset; empty cells are undefined values, never zero.

    Attributes:
        dataset: The dataset.
        strategy: The strategy's signature.
        texts: How many continuations.
        diversity: `diversity.Diversity.diversity`, percent.
        rep_2: Share of repeated bigrams, percent; likewise `rep_3` and `rep_4`.
        coherence: Mean log-likelihood per token, nats, under `coherence_model`.
        tokens: Mean length in tokens.
        ended: Share of texts the model ended itself, percent.
        tokens_per_second: Generation speed at `batch` rows on `device`.
        diversity_signature: The definition of diversity.
        coherence_model: Which model scored.
    """

    dataset: str
    strategy: str
    texts: int
    diversity: float | None
    rep_2: float | None
    rep_3: float | None
    rep_4: float | None
    coherence: float | None
    tokens: float
    ended: float
    tokens_per_second: float
    batch: int
    device: str
    diversity_signature: str
    coherence_model: str


def metrics_row(
    continuations: Sequence[Continuation], coherence: Mapping[str, float | None], *, coherence_model: str
) -> MetricsRow:
    """Return the row of continuations that share a dataset and a strategy.

    Args:
        continuations: At least one.
        coherence: Of each continuation, by its id.
        coherence_model: Which model scored.
    """
    varied = diversity([c.text for c in continuations])
    timing = speed(continuations)
    scores = [score for c in continuations if (score := coherence.get(c.id)) is not None]
    return MetricsRow(
        dataset=continuations[0].dataset,
        strategy=continuations[0].recipe.strategy,
        texts=len(continuations),
        diversity=varied.diversity,
        rep_2=varied.rep[2],
        rep_3=varied.rep[3],
        rep_4=varied.rep[4],
        coherence=round(sum(scores) / len(scores), 4) if scores else None,
        tokens=round(timing.tokens, 2),
        ended=round(100 * timing.ended, 2),
        tokens_per_second=round(timing.tokens_per_second, 1),
        batch=timing.batch,
        device=timing.device,
        diversity_signature=SIGNATURE,
        coherence_model=coherence_model,
    )


def write_metrics(rows: Sequence[MetricsRow], path: Path) -> None:
    """Write the rows as CSV, whole or not at all.

    Raises:
        StudyError: The file cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(MetricsRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text.getvalue(), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; mend that and run the command again"
        ) from error
