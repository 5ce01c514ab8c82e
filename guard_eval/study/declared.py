"""What a study declares before its verdicts: one part for people and one for each judge.

A part has the settings that can change what these raters see or how their verdicts are tested, and nothing
else: a change of one judge leaves the parts of people and of other judges as they are. The database keeps
each part, as JSON, with the first verdict of its raters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from guard_eval.records import PEOPLE, DeclaredPart, settings_part
from guard_eval.study.judge_settings import Judge, headers_in_key
from guard_eval.study.settings import Settings

_NOT_SHARED: Any = {
    "database": True,
    "publication": True,
    "metrics": True,
    "annotation": True,
    "criteria": True,
    "judge": True,
    "panel": True,
    "model": {"device", "device_map"},
    "generation": {"batch_size", "compile"},
}
"""Settings that change no rater's verdicts, or not every rater's."""

_VISITS: Any = {"recruitment": {"codes", "completion_url", "prolific_study"}}
"""Settings of annotation that only say where raters come from and go to."""

_SENDING = {
    "name",
    "api_key_env",
    "timeout",
    "concurrency",
    "headers",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
}
"""Settings of a judge that say how and for how much requests are sent; of the headers some count."""

_SHOWN = 60
"""Characters of a value that a message repeats."""


def declared_settings(settings: Settings) -> dict[str, str]:
    """Return each part's settings as JSON, whose order of keys and comments in study.toml change nothing."""
    shared = settings.model_dump(mode="json", exclude=_NOT_SHARED)
    if settings.pairs.best_of_runs is not None:  # then metrics choose the texts
        shared["metrics"] = settings.metrics.model_dump(mode="json")
    people = settings.annotation
    parts = {
        PEOPLE: shared
        | _words(settings, people.criteria)
        | {"annotation": people.model_dump(mode="json", exclude=_VISITS)}
    }
    panel = None if settings.panel is None else settings.panel.model_dump(mode="json")
    for name, judge in zip(settings.judge_names, settings.judge, strict=True):
        words = _words(settings, judge.criteria)
        parts[settings_part(name, "model")] = shared | words | {"judge": _asked(judge), "panel": panel}
    return {part: json.dumps(values, sort_keys=True, ensure_ascii=False) for part, values in parts.items()}


def _words(settings: Settings, names: list[str]) -> dict[str, Any]:
    """Return the study's own criteria among those that are asked."""
    return {
        "criteria": {
            name: each.model_dump(mode="json") for name, each in settings.criteria.items() if name in names
        }
    }


def _asked(judge: Judge) -> dict[str, Any]:
    return judge.model_dump(mode="json", exclude=_SENDING) | {"headers": headers_in_key(judge.headers)}


def hash_declared(declared: str) -> str:
    """Return the SHA-256 of a part."""
    return hashlib.sha256(declared.encode("utf-8", "surrogatepass")).hexdigest()


def compare_declared(
    declared: Mapping[str, str], first: Mapping[str, str | None]
) -> tuple[DeclaredPart, ...]:
    """Return each part with what changed in it.

    Args:
        declared: The parts today (`Study.declared`).
        first: The parts at the first verdict of their raters, where there is one.
    """
    return tuple(
        DeclaredPart(
            name=name,
            hash=hash_declared(today),
            first_hash=None if (before := first.get(name)) is None else hash_declared(before),
            changes=() if before is None else tuple(_changes(json.loads(before), json.loads(today))),
        )
        for name, today in declared.items()
    )


def _changes(before: object, after: object, key: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            change
            for name in sorted({*before, *after})
            for change in _changes(before.get(name), after.get(name), f"{key}.{name}" if key else name)
        ]
    if before == after:
        return []
    if isinstance(before, str) and isinstance(after, str):
        start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
        start = max(0, start - _SHOWN // 3) if max(len(before), len(after)) > _SHOWN else 0
        before, after = before[start:], after[start:]
    return [f"{key} from {_shown(before)} to {_shown(after)}"]


def _shown(value: object) -> str:
    """Return a value as study.toml would have it, shortened; "none" where it has none."""
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
