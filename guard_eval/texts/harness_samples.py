"""lm-evaluation-harness' samples as generations.

Source: EleutherAI/lm-evaluation-harness 0.4, `loggers/evaluation_tracker.py`: `samples_TASK_DATE.jsonl` has a
document a line, with `arguments` (prompt and settings of each request), `resps` (its texts) and `target`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.texts.generations import Generation
from guard_eval.texts.rows import read_rows

_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d:.-]+")


def is_samples(path: Path) -> bool:
    """Return whether a file's first line is a sample of lm-evaluation-harness."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline(2**28))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"doc_id", "resps", "arguments"} <= first.keys()


def read_samples(path: Path) -> list[Generation]:
    """Return the texts of a file, in its order; of several answers to a prompt the first.

    Raises:
        StudyError: A line is no sample, its task asks for likelihoods and no texts, or for several texts.
    """
    result = _TASK.fullmatch(path.stem)
    task = result[1] if result else path.stem
    return [_text(record.row, f"{path}, {record.where}", task, path.stem) for record in read_rows(path)]


def _text(sample: Mapping[str, Any], where: str, task: str, strategy: str) -> Generation:
    requests = list(_requests(sample.get("arguments")))
    texts = sample.get("resps")
    if len(requests) != 1 or not isinstance(texts, list) or len(texts) != 1:
        raise StudyError(
            f"{where}: has {len(requests)} requests; a generated text has one. Give a task of the kind "
            "generate_until"
        )
    prompt, settings = requests[0]
    answer = texts[0][0] if isinstance(texts[0], list) and texts[0] else texts[0]
    if not isinstance(settings, dict) or not isinstance(prompt, str) or not isinstance(answer, str):
        raise StudyError(
            f"{where}: the task asks for likelihoods, and no text was generated; give a task of the kind "
            "generate_until"
        )
    target, number = sample.get("target"), sample.get("doc_id")
    return Generation(
        prompt_id=f"{task}-{number:04d}" if isinstance(number, int) else f"{task}-{number}",
        dataset=task,
        strategy=strategy,
        prompt=prompt,
        reference=target if isinstance(target, str) else None,
        text=answer,
    )


def _requests(arguments: object) -> Iterator[tuple[object, object]]:
    """Yield prompt and settings of each request, as newer and older versions write them."""
    parts = list(arguments.values()) if isinstance(arguments, dict) else arguments
    for part in parts if isinstance(parts, list) else []:
        values = list(part.values()) if isinstance(part, dict) else part
        if isinstance(values, list):
            yield (values[0] if values else None, values[1] if len(values) > 1 else None)
