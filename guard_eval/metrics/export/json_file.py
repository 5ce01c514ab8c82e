"""Results as JSON: everything that is known."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from guard_eval.metrics.scores import Results
from guard_eval.metrics.view import closest_to_human
from guard_eval.writing import write_whole


def write_json(results: Results, path: Path) -> None:
    """Write everything; a value that is no finite number is null.

    Raises:
        StudyError: The file cannot be written.
    """
    whole = {
        "scores": [asdict(score) for score in results.scores],
        "differences": [asdict(difference) for difference in results.differences],
        "closest_to_human": sorted(closest_to_human(results)),
        "settings": dict(results.settings),
        "speed": [
            {"dataset": dataset, "strategy": strategy, "speed": speed}
            for (dataset, strategy), speed in results.speed.items()
        ],
        "warnings": list(results.warnings),
    }
    text = json.dumps(_finite(whole), indent=2, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value
