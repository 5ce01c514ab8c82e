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

from analysis.verdicts.files import MAX_BYTES, Record, VerdictFile, check_object, parse_json
from analysis.verdicts.recognition import Row
from analysis.verdicts.sides import answer_text, is_missing, is_verdict, item_cells, text_of
from guard_eval.errors import StudyError

MAX_LOG_BYTES = 16 * MAX_BYTES
"""All samples of an archive may unpack to so many bytes; one at a time is in memory."""
_ZSTANDARD = 93
"""The ZIP method of newer logs, which Python's zipfile reads from 3.14 on."""
_FIELDS = ("id", "epoch", "metadata", "scores", "error")
_NO_ANSWER = "N"
"""What Inspect's scorers write where the model gave no answer."""


def open_log(path: Path) -> VerdictFile | None:
    """Return an .eval file as one record of header and samples, or None if the ZIP is no such log.

    Raises:
        StudyError: It is damaged, too large, or compressed as only pyarrow reads it and that is missing.
    """
    try:
        with zipfile.ZipFile(path) as packed, path.open("rb") as file:
            names = packed.namelist()
            if "header.json" not in names:
                return None
            remaining = [MAX_LOG_BYTES]
            header = _part(packed, file, "header.json", remaining)
            log = dict(check_object(header, f"{path}, header.json"))
            log["samples"] = [
                _read_fields(_part(packed, file, name, remaining))
                for name in names
                if name.startswith("samples/")
            ]
    except (zipfile.BadZipFile, struct.error, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise StudyError(f"cannot read {path}: {error}; it is damaged, copy it again") from None
    return VerdictFile(path=path, word="record", items=((1, log),))


def _read_fields(sample: object) -> object:
    """Return the part of a sample that is read: its transcript takes a hundred times as much."""
    return {key: sample[key] for key in _FIELDS if key in sample} if isinstance(sample, dict) else sample


def _part(packed: zipfile.ZipFile, file: IO[bytes], name: str, remaining: list[int]) -> Any:  # noqa: ANN401
    """Return a part's JSON; whatever the ZIP says of itself, all may unpack to `remaining` bytes."""
    info, path = packed.getinfo(name), Path(str(packed.filename))
    if info.compress_type == _ZSTANDARD:
        file.seek(info.header_offset)
        name_size, extra_size = struct.unpack("<26xHH", file.read(30))
        file.seek(name_size + extra_size, 1)
        stream = _zstandard(file.read(info.compress_size), path)
    else:
        stream = packed.open(name)
    limit = min(MAX_BYTES, remaining[0])
    with stream:
        data = stream.read(limit + 1)
    remaining[0] -= len(data)
    if len(data) > limit:
        raise StudyError(f"{path}, {name} unpacks to more than {limit} bytes; give a log of fewer samples")
    if zlib.crc32(data) != info.CRC:  # which zipfile checks of what it unpacks itself
        raise zipfile.BadZipFile(f"{name} is not what was packed")
    return parse_json(data, f"{path}, {name}")


def _zstandard(data: bytes, path: Path) -> IO[bytes]:
    try:
        arrow = import_module("pyarrow")
    except ImportError:
        raise StudyError(
            f"reading {path} needs pyarrow; run: pip install pyarrow, or: inspect log convert --to json "
            f"--output-dir . {shlex.quote(str(path))}"
        ) from None
    return cast("IO[bytes]", arrow.CompressedInputStream(arrow.BufferReader(data), "zstd"))


def read(file: VerdictFile, notes: list[str], _items: object) -> Iterator[tuple[int, Row]]:
    """Yield a row for each sample, scorer and criterion."""
    log = file.first
    header, samples = log.get("eval"), log.get("samples")
    if not isinstance(header, dict) or "status" not in log:
        raise StudyError(
            f"{file.path} is no Inspect log, which has eval, status and samples; name its format"
        )
    rater = text_of(header.get("model"), str(file.path), "eval.model")
    notes.append(f"the log's model, {rater!r}, is the rater")
    if log["status"] != "success":
        notes.append(f"the log's status is {log['status']!r}: samples may be missing")
    rows: dict[str, list[tuple[int, dict[str, str | None]]]] = {"value": [], "answer": []}
    for index, sample in enumerate(samples if isinstance(samples, list) else [], start=1):
        where = f"{file.path}, sample {index}"
        entry = check_object(sample, where)
        if entry.get("error"):
            yield index, "it ended in an error"
            continue
        task, epoch = text_of(header.get("task"), where, "task"), entry.get("epoch")
        cells: dict[str, str | None] = {"presentation": None if is_missing(epoch) else str(epoch)}
        cells |= item_cells(_object(entry, "metadata"), where, pair_id=entry.get("id"), dataset=task)
        cells |= {"rater": rater, "rater_kind": "model"}
        for key, answers in rows.items():
            answers += [(index, cells | answer) for answer in _answers(_object(entry, "scores"), key)]
    chosen = rows["value"]
    if rows["answer"] and not any(is_verdict(row["verdict"], row) for _, row in chosen):
        notes.append("the scores hold no verdicts: what a scorer took for the answer is taken")
        chosen = rows["answer"]
    yield from chosen


def _object(record: Record, key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _answers(scores: Mapping[str, Any], key: str) -> Iterator[dict[str, str | None]]:
    """Yield the scorers' values, or answers; a value with keys is one for each."""
    for name, score in scores.items():
        value = score.get(key) if isinstance(score, dict) else None
        for criterion, word in value.items() if isinstance(value, dict) else [(name, value)]:
            yield {"criterion": criterion, "verdict": None if word == _NO_ANSWER else answer_text(word)}
