"""The columns of the judges' tables in csv/: unrounded, one row as it was counted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

from analysis.judge_run import CalibrationRow, Checked, Failed, Seen, Spent
from guard_eval.escaping import Cell

SPENT_COLUMNS: dict[str, Callable[[Spent], Cell]] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "requests": lambda row: row.requests,
    "answers": lambda row: row.answers,
    "lost": lambda row: row.lost,
    "under_way": lambda row: row.waiting,
    "prompt_tokens": lambda row: row.input_tokens,
    "cached_tokens": lambda row: row.cached_tokens,
    "completion_tokens": lambda row: row.output_tokens,
    "reasoning_tokens": lambda row: row.reasoning_tokens,
    "answers_without_tokens": lambda row: row.unmetered,
    "requests_without_price": lambda row: row.unpriced,
    "usd": lambda row: row.usd,
    "held_usd": lambda row: row.held_usd,
}
FAILED_COLUMNS: dict[str, Callable[[Failed], Cell]] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "kind": lambda row: row.kind,
    "count": lambda row: row.count,
}
SEEN_COLUMNS: dict[str, Callable[[Seen], Cell]] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "model": lambda row: row.model,
    "fingerprint": lambda row: row.fingerprint,
    "answers": lambda row: row.answers,
    "first": lambda row: row.first.astimezone(UTC).isoformat(),
    "last": lambda row: row.last.astimezone(UTC).isoformat(),
}
CALIBRATION_COLUMNS: dict[str, Callable[[CalibrationRow], Cell]] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "check": lambda row: row.check,
    "criterion": lambda row: row.criterion,
    "items": lambda row: row.share.n,
    "missing": lambda row: row.missing,
    "hits": lambda row: row.hits,
    "opposite": lambda row: row.opposite,
    "share": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
}
CHECKED_COLUMNS: dict[str, Callable[[Checked], Cell]] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "check": lambda row: row.check,
    "item": lambda row: row.item,
    "criterion": lambda row: row.criterion,
    "said": lambda row: " ".join(row.said),
    "asked": lambda row: row.asked,
}
