"""What a study declares before its verdicts: one part for people and one for each judge.

A part has the settings that can change what these raters see or how their verdicts are tested, and nothing
else: a change of one judge leaves the parts of people and of other judges as they are. The database keeps
each part, as JSON, with the first verdict of its raters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from guard_eval.records import PEOPLE, DeclaredPart, settings_part
from guard_eval.study.settings import Settings

_OF_SOME_RATERS: Any = dict.fromkeys(
    ("database", "publication", "metrics", "annotation", "criteria", "judge", "panel"), True
) | {"model": {"device", "device_map"}, "generation": {"batch_size", "compile"}}
"""Settings that change no rater's verdicts, or not every rater's."""

_OF_VISITS: Any = {"recruitment": {"codes", "completion_url", "prolific_study"}}
"""Settings of annotation that only say where raters come from and go to."""

_OF_SENDING = {
    "name",
    "api_key_env",
    "timeout",
    "concurrency",
    "headers",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
}
"""Settings of a judge that say how and for how much requests are sent; of the headers some count."""

_SHOWN_CHARACTERS = 60
"""So much of a value a message repeats."""


def declared_settings(settings: Settings) -> dict[str, str]:
    """Return each part's settings as JSON, whose order of keys and comments in study.toml change nothing."""
    shared = settings.model_dump(mode="json", exclude=_OF_SOME_RATERS)
    tables = settings.model_dump(mode="json")
    if settings.pairs.best_of_runs is not None:  # then metrics choose the texts
        shared["metrics"] = tables["metrics"]
    annotation = settings.annotation.model_dump(mode="json", exclude=_OF_VISITS)
    parts: dict[str, dict[str, Any]] = {PEOPLE: {"annotation": annotation}}
    for judge in settings.judge:
        asked = judge.model_dump(mode="json", exclude=_OF_SENDING) | {"headers": judge.answering_headers}
        parts[settings_part(judge.rater_name, "model")] = {"judge": asked, "panel": tables["panel"]}
    criteria = [settings.annotation.criteria, *(judge.criteria for judge in settings.judge)]
    for part, names in zip(parts.values(), criteria, strict=True):
        own = {name: words for name, words in tables["criteria"].items() if name in names}
        part.update(shared, criteria=own)
    return {name: json.dumps(part, sort_keys=True, ensure_ascii=False) for name, part in parts.items()}


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
            for change in _changes(before.get(name), after.get(name), f"{key}.{name}".removeprefix("."))
        ]
    if before == after:
        return []
    # as study.toml would have them, from shortly before the first difference
    values = ["none" if value is None else json.dumps(value, ensure_ascii=False) for value in (before, after)]
    pairs = enumerate(zip_longest(*values))
    same = next((index for index, (old, new) in pairs if old != new), 0)
    start = max(0, same - 20) if max(map(len, values)) > _SHOWN_CHARACTERS else 0
    old, new = (
        value[start:][:_SHOWN_CHARACTERS] + "…" * (len(value) > start + _SHOWN_CHARACTERS) for value in values
    )
    return [f"{key} from {old} to {new}"]
