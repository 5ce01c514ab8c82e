"""lm-evaluation-harness' samples as generations.

Source: EleutherAI/lm-evaluation-harness 0.4, `loggers/evaluation_tracker.py`: `samples_TASK_DATE.jsonl` has a
document a line, with `arguments` (prompt and settings of each request), `resps` (its texts) and `target`.
"""

from __future__ import annotations

import re
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.texts.generations import Generation
from guard_eval.texts.rows import Record

_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d:.-]+")


def is_sample(record: Record) -> bool:
    """Return whether a record is a sample of lm-evaluation-harness."""
    return {"doc_id", "resps", "arguments"} <= record.row.keys()


def read_sample(record: Record, path: Path) -> Generation:
    """Return the text of a sample; of several answers to a prompt the first.

    Raises:
        StudyError: Its task asks for likelihoods and no texts, or for several texts.
    """
    named = _TASK.fullmatch(path.stem)
    task = named[1] if named else path.stem
    match record.row:
        case {
            "doc_id": number,
            "arguments": {"gen_args_0": {"arg_0": str(prompt), "arg_1": dict()}, **others},
            "resps": [[str(text), *_] | str(text)],
        } if not others:
            target = record.row.get("target")
        case _:
            raise StudyError(
                f"{record.where}: the task asks for likelihoods or several texts; give a task of the kind "
                "generate_until"
            )
    return Generation(
        prompt_id=f"{task}-{number:04d}" if isinstance(number, int) else f"{task}-{number}",
        dataset=task,
        strategy=path.stem,
        prompt=prompt,
        reference=target if isinstance(target, str) else None,
        text=text,
    )
