"""Inspect's logs, .json and .eval: a sample is a pair, a scorer or each key of its value a criterion.

Source: UKGovernmentBEIS/inspect_ai, `log/_log.py` (EvalLog) and `log/_recorders/eval.py`: .eval is a ZIP of
header.json and samples/ID_epoch_N.json. Inspect has no verdicts of its own: the sample's metadata names the
methods.
"""

from __future__ import annotations

import shlex
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from analysis.verdicts.formats.answers import ForeignAnswer, questions_of_verdicts, verdict_rows
from analysis.verdicts.formats.records import MOST_JSON, Record, Source, checked, parse
from analysis.verdicts.formats.rows import Row
from analysis.verdicts.formats.sides import Item, is_missing, item_of, text_of
from guard_eval.errors import StudyError

NAME = "inspect"
WHAT = "an Inspect log"

_ZSTANDARD = 93
"""The ZIP method of newer logs, which Python's zipfile reads from 3.14 on."""
_MOST_BYTES = 16 * MOST_JSON
"""All samples of an archive may unpack to so many bytes; one at a time is in memory."""
_FIELDS = ("id", "epoch", "metadata", "scores", "error")
_NO_ANSWER = "N"
"""What Inspect's scorers write where the model gave no answer."""


def claims(record: Record) -> bool:
    """Return whether a record is of this format."""
    return isinstance(record.get("eval"), dict) and {"samples", "status"} <= record.keys()


def open_log(path: Path) -> Source | None:
    """Return an .eval file as one record, header and samples; None where a ZIP is something else.

    Raises:
        StudyError: It is damaged, too large, or compressed as only pyarrow reads it and that is missing.
    """
    try:
        with zipfile.ZipFile(path) as packed:
            names = packed.namelist()
            if "header.json" not in names:
                return None
            remaining = [_MOST_BYTES]
            with path.open("rb") as file:
                log = dict(
                    checked(_part(packed, file, "header.json", path, remaining), f"{path}, header.json")
                )
                samples = [name for name in names if name.startswith("samples/")]
                log["samples"] = [
                    _read_fields(_part(packed, file, name, path, remaining)) for name in samples
                ]
    except (zipfile.BadZipFile, struct.error, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise StudyError(f"cannot read {path}: {error}; it is damaged, copy it again") from None
    return Source(path=path, word="record", first=log, items=((1, log),))


def _read_fields(sample: object) -> object:
    """Return the part of a sample that is read: its transcript takes a hundred times as much."""
    return {key: sample[key] for key in _FIELDS if key in sample} if isinstance(sample, dict) else sample


def _part(packed: zipfile.ZipFile, file: IO[bytes], name: str, path: Path, left: list[int]) -> Any:  # noqa: ANN401
    """Return a part's JSON; whatever the ZIP says of itself, all together may unpack to `left` bytes."""
    result = packed.getinfo(name)
    if result.compress_type == _ZSTANDARD:
        file.seek(result.header_offset)
        name_size, extra = struct.unpack("<26xHH", file.read(30))
        file.seek(name_size + extra, 1)
        stream = _zstandard(file.read(result.compress_size), path)
    else:
        stream = packed.open(name)
    limit = min(MOST_JSON, left[0])
    with stream:
        data = stream.read(limit + 1)
    left[0] -= len(data)
    if len(data) > limit:
        raise StudyError(f"{path}, {name} unpacks to more than {limit} bytes; give a log of fewer samples")
    if zlib.crc32(data) != result.CRC:  # which zipfile checks of what it unpacks itself
        raise zipfile.BadZipFile(f"{name} is not what was packed")
    return parse(data, f"{path}, {name}")


def _zstandard(data: bytes, path: Path) -> IO[bytes]:
    try:
        arrow = import_module("pyarrow")
    except ImportError:
        raise StudyError(
            f"reading {path} needs pyarrow; run: pip install pyarrow, or: inspect log convert --to json "
            f"--output-dir . {shlex.quote(str(path))}"
        ) from None
    return cast("IO[bytes]", arrow.CompressedInputStream(arrow.BufferReader(data), "zstd"))


def read(source: Source, notes: list[str], _items: Mapping[str, Item]) -> Iterator[tuple[int, Row]]:
    """Yield a verdict for each sample, scorer and criterion."""
    log = source.first
    if not claims(log):
        raise StudyError(
            f"{source.path} is no Inspect log, which has eval, status and samples; name its format"
        )
    header = log["eval"]
    rater = text_of(header.get("model"), str(source.path), "eval.model")
    notes.append(f"the log's model, {rater!r}, is the rater")
    if log.get("status") != "success":
        notes.append(f"the log's status is {log.get('status')!r}: samples may be missing")
    samples = log["samples"] if isinstance(log["samples"], list) else []
    result: list[tuple[int, Item, dict[str, str | None], Mapping[str, Any]]] = []
    for index, sample in enumerate(samples, start=1):
        where = f"{source.path}, sample {index}"
        entry = checked(sample, where)
        if entry.get("error"):
            yield index, "it ended in an error"
            continue
        task = text_of(header.get("task"), where, "task")
        item = item_of(_object(entry, "metadata"), where, pair_id=entry.get("id"), dataset=task)
        epoch = entry.get("epoch")
        more = {"rater_kind": "model", "presentation": None if is_missing(epoch) else str(epoch)}
        result.append((index, item, more, _object(entry, "scores")))
    answers = _answers(result, rater, "value")
    if not questions_of_verdicts(answers) and (others := _answers(result, rater, "answer")):
        notes.append("the scores hold no verdicts: what a scorer took for the answer is taken")
        answers = others
    yield from verdict_rows(answers, f"{source.path}, sample", notes)


def _object(record: Record, key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _answers(
    samples: list[tuple[int, Item, dict[str, str | None], Mapping[str, Any]]], rater: str, key: str
) -> list[ForeignAnswer]:
    """Return the scorers' values, or answers; a value with keys is one for each."""
    answers = []
    for index, item, more, scores in samples:
        for name, score in scores.items():
            value = score.get(key) if isinstance(score, dict) else None
            for criterion, word in value.items() if isinstance(value, dict) else [(name, value)]:
                scored = None if word == _NO_ANSWER else word
                answers.append(
                    ForeignAnswer(
                        record=index, item=item, rater=rater, criterion=criterion, word=scored, more=more
                    )
                )
    return answers
