"""The settings that a study declares before its verdicts: a part for people and a part for each judge.

A part has only the settings that can change what these raters see or how their verdicts are tested. If one
judge's settings change, the parts of people and of other judges stay the same. The database stores each part
as JSON, with the first verdict of the part's raters. If a comparison or a system is added later, the declared
settings of the others do not change.
"""

import json
from collections.abc import Mapping

from guard_eval.records import PEOPLE, DeclaredPart, JsonObject, find_declared_part_of_rater, hash_text
from guard_eval.study.settings import Settings
from guard_eval.study.system_settings import System

_EXTENDED = {"pairs.compare", "generation.strategies"}
"""Lists in study.toml that may get new entries after the first verdict: old entries keep their meaning."""


def declare_settings(settings: Settings, choice: str | None = None) -> dict[str, str]:
    """Return the settings of each part as JSON, independent of comments and of the order of keys.

    Fields that affect neither verdicts nor tests are left out; their definitions have `exclude=True`.

    Args:
        settings: The settings of the study.
        choice: The hash of the choice by [tuning], if settings were chosen.
    """
    shared = settings.model_dump(mode="json", exclude={"metrics"})
    if settings.tuning is not None:
        shared["tuning"]["choice"] = choice
    shared["system"] = {system.name: _declare_system(system) for system in settings.system}
    annotation, criteria, judges = map(shared.pop, ("annotation", "criteria", "judge"))
    panel = shared["analysis"].pop("panel")
    parts: dict[str, JsonObject] = {PEOPLE: {"annotation": annotation}}
    for judge, table in zip(settings.judge, judges, strict=True):
        table["headers"] = judge.headers_affecting_answers
        parts[find_declared_part_of_rater(judge.rater_name, "model")] = {"judge": table, "panel": panel}
    for settings_of_part in parts.values():
        names = settings_of_part.get("judge", annotation)["criteria"]
        words_by_name = {name: words for name, words in criteria.items() if name in names}
        settings_of_part.update(shared, criteria=words_by_name)
    return {
        name: json.dumps(settings_of_part, sort_keys=True, ensure_ascii=False)
        for name, settings_of_part in parts.items()
    }


def _declare_system(system: System) -> JsonObject:
    """Return the settings that decide a system's texts. The name of a file of texts is left out."""
    table = system.model_dump(mode="json", exclude={"name", "headers"}, exclude_defaults=True)
    return table | ({"headers": system.headers_affecting_answers} if system.headers_affecting_answers else {})


def compare_declared_parts(
    declared: Mapping[str, str], first: Mapping[str, str | None]
) -> tuple[DeclaredPart, ...]:
    """Return the parts with the settings that changed after the first verdict.

    Args:
        declared: The current parts (`Study.declared`).
        first: The parts at the first verdict of their raters; None without a verdict.
    """
    return tuple(
        DeclaredPart(
            name=name,
            hash=hash_text(today),
            first_hash=before and hash_text(before),
            changes=tuple(_list_setting_changes(json.loads(before or today), json.loads(today))),
        )
        for name, today in declared.items()
        for before in [first.get(name)]
    )


def _list_setting_changes(before: object, after: object, key: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            change
            for name in sorted({*before, *after})
            if key != "system" or name in before
            for change in _list_setting_changes(
                before.get(name), after.get(name), f"{key}.{name}".removeprefix(".")
            )
        ]
    if key in _EXTENDED and isinstance(before, list) and isinstance(after, list):
        after = [entry for entry in after if entry in before]
    old, new = (json.dumps(value, ensure_ascii=False)[:60] for value in (before, after))
    return [] if before == after else [f"{key} from {old} to {new}"]
