"""`guard-eval gold`: pairs whose better text is known, to see who reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from guard_eval.cli.console import StudyFolder, count_of, say, say_next
from guard_eval.errors import StudyError
from guard_eval.records import Gold, Pair, as_shown, content_id
from guard_eval.store import Store
from guard_eval.study.folder import Study

BETTER, WORSE = "gold: better", "gold: worse"
"""Written in place of methods; no rater sees either."""


def command(
    folder: StudyFolder,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="GOLD.jsonl",
            help='A JSON object a line: "prompt", "better", "worse"; "criteria" if not all are clear.',
        ),
    ],
) -> None:
    """Add gold pairs.

    They are mixed into everybody's pairs as annotation.gold_every says, and look like any other. They are no
    part of the study. Again changes nothing.
    """
    study = Study.open(folder)
    asked = study.settings.annotation
    entries = read_gold(file, criteria=tuple(asked.criteria))
    with Store.open(study.database, study_hash=study.hash) as store:
        new = store.add_gold(entries)
    say(f"{count_of(len(entries), 'gold pair')}, {new} of them new")
    if asked.gold_every is None:
        say("They are not shown yet: set annotation.gold_every = 10, or so, in study.toml")
    say_next(f"guard-eval annotate {folder}")


def read_gold(path: Path, *, criteria: tuple[str, ...]) -> list[Gold]:
    """Return the gold pairs of a file, in its order.

    Raises:
        StudyError: It cannot be read, or a line is not as it must be; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a text may hold other ends of a line
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}; name a JSONL file of gold pairs") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    entries = [
        _entry(path, number, line, criteria) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not entries:
        raise StudyError(f"{path} has no gold pairs; write a JSON object a line")
    return entries


def _entry(path: Path, number: int, line: str, criteria: tuple[str, ...]) -> Gold:
    where = f"{path}, line {number}"
    try:
        row: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "a number or a nesting that cannot be read")
        raise StudyError(f"{where} is not JSON: {reason}; fix that line") from error
    texts = [row.get(key) if isinstance(row, dict) else None for key in ("prompt", "better", "worse")]
    if not all(isinstance(text, str) and as_shown(text) for text in texts):
        raise StudyError(f'{where} needs "prompt", "better" and "worse", each a text')
    prompt, better, worse = (str(text) for text in texts)
    if as_shown(better) == as_shown(worse):
        raise StudyError(
            f'{where}: "better" and "worse" are the same text, as raters see it; write one that is worse'
        )
    clear = row.get("criteria", list(criteria))
    if not isinstance(clear, list) or not clear or not all(each in criteria for each in clear):
        raise StudyError(
            f'{where}: "criteria" names {clear!r}; write some of the study\'s: {", ".join(criteria)}'
        )
    ids = content_id("gold", prompt, better), content_id("gold", prompt, worse)
    pair = Pair(
        id=Pair.make_id(BETTER, WORSE, *ids),
        dataset="gold",
        prompt_id=content_id("gold", prompt),
        prompt=prompt,
        method_a=BETTER,
        method_b=WORSE,
        continuation_a=ids[0],
        continuation_b=ids[1],
        text_a=better,
        text_b=worse,
        position=number - 1,
    )
    return Gold(pair=pair, expected=dict.fromkeys(clear, "a"))
