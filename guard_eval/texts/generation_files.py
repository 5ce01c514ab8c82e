"""Reading the files of generations people have, whatever their keys are called.

The published scripts of this line of work write JSON lists of `prefix_text`, `reference_text` and
`generated_result`, the last one as `{"0": text, "1": text, …}`, and measure text "0" alone; so do we, unless
asked for all. The toolkit's own continuation files name no prompt; it is looked up by its id. A text
that leaves here holds U+FFFD where its file is not UTF-8.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from guard_eval.errors import StudyError
from guard_eval.records import Prompt, Recipe
from guard_eval.texts.continuations import HASH, continuation_of, differing_field, pyarrow
from guard_eval.texts.generations import Generation

TEXT = ("text", "generated_text", "generated_result", "continuation", "output", "completion", "gen_text")
"""Keys of the text, the first that holds one."""

FURTHER = "further texts of the prompt not read"
"""The flaw of a record that holds several texts, of which the first is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        where: Where it stands, for messages.
        row: Its values by key or heading.
        flaws: What was replaced or is missing in it.
    """

    where: str
    row: Mapping[str, Any]
    flaws: tuple[str, ...] = ()


def read_records(path: Path) -> list[Record]:
    """Return the records of a file, in its order, in the format that its suffix names.

    Raises:
        StudyError: The file cannot be read; file, record, value and remedy are named.
    """
    read = _FORMATS.get(path.suffix.lower())
    if read is None:
        have = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise StudyError(f"{path} has {have}; name the file by its format: {', '.join(_FORMATS)}")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StudyError(f"there is no generations file {path}; check its name") from None
    except OSError as error:
        raise StudyError(
            f"cannot read {path}: {error.strerror}; fix that and run the command again"
        ) from error
    return read(path, data)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _lines(path: Path, data: bytes) -> list[Record]:
    text = _decoded(data)
    if text.lstrip().startswith("["):
        return _whole_json(path, data)
    return _json_lines(path, text)


def _json_lines(path: Path, text: str) -> list[Record]:
    # Texts hold characters at which str.splitlines would break them; JSONL ends its lines with \n alone.
    lines = text.split("\n")
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and records:  # no line end after it: its writer was stopped
                records[-1] = replace(records[-1], flaws=("torn last line",))
                break
            raise StudyError(
                f"{path}, {where}: not valid JSON ({error}); write one whole object a line"
            ) from error
        records.append(_record(path, where, row))
    return records


def _record(path: Path, where: str, row: object) -> Record:
    if isinstance(row, list) and row and all(isinstance(one, dict) for one in row):
        # Contrastive decoding's authors publish a list of a prompt's texts a line; the first is measured.
        return Record(where=where, row=row[0], flaws=(FURTHER,) if len(row) > 1 else ())
    if not isinstance(row, dict):
        raise StudyError(f'{path}, {where}: {str(row)[:40]!r} is no JSON object; write {{"text": "…"}}')
    return Record(where=where, row=row)


def _whole_json(path: Path, data: bytes) -> list[Record]:
    text = _decoded(data)
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # JSONL under another name, or whose lines are lists
            return _json_lines(path, text)
        raise StudyError(f"{path}: not valid JSON ({error}); write a list of objects") from error
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{path}: not valid JSON ({error}); write a list of objects") from error
    if isinstance(value, dict):
        value = _only_list(path, value)
    if not isinstance(value, list):
        raise StudyError(f"{path} holds {str(value)[:40]!r}; write a list of objects")
    return [_record(path, f"record {number}", row) for number, row in enumerate(value, start=1)]


def _only_list(path: Path, value: dict[str, Any]) -> list[Any]:
    if any(key in value for key in TEXT):
        return [value]
    lists = [
        key
        for key, inner in value.items()
        if isinstance(inner, list) and all(isinstance(row, dict) for row in inner)
    ]
    if len(lists) != 1:
        names = f"{len(lists)} lists of objects ({', '.join(map(repr, lists)) or 'none'})"
        raise StudyError(f"{path} is an object with {names:.300}; leave one, or write the list alone")
    found: list[Any] = value[lists[0]]
    return found


def _csv(path: Path, data: bytes) -> list[Record]:
    text = _decoded(data)
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    try:
        # Lines end with \n alone here too: a bare carriage return outside quotes is an error, not a new row.
        reader = csv.reader((f"{line}\n" for line in text.split("\n")), strict=True)
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); quote texts with line breaks or quotes"
        ) from error
    finally:
        csv.field_size_limit(limit)
    if not rows:
        return []
    head = [name.strip() for name in rows[0][1]]
    if twice := [name for name in dict.fromkeys(head) if name and head.count(name) > 1]:
        raise StudyError(f"{path}: two columns are called {twice[0]!r}; rename one")
    records = []
    for number, (line, row) in enumerate(rows[1:], start=1):
        where = f"record {number} (ends at line {line})"
        if len(row) != len(head):
            raise StudyError(
                f"{path}, {where}: has {len(row)} cells under {len(head)} headings; quote texts with commas"
            )
        # An empty cell is a value of texts alone; elsewhere it says that nothing is known.
        cells = {name: cell for name, cell in zip(head, row, strict=True) if cell or name in TEXT}
        records.append(Record(where=where, row=cells))
    return records


def _parquet(path: Path, data: bytes) -> list[Record]:
    if not data:
        return []
    arrow, parquet = pyarrow()
    columns: dict[str, list[object]] = {}
    try:
        table = parquet.read_table(arrow.BufferReader(data))
        for name in table.column_names:
            try:
                columns[name] = table.column(name).to_pylist()
            except UnicodeDecodeError:
                columns[name] = table.column(name).cast(arrow.large_binary()).to_pylist()
    except (arrow.ArrowException, KeyError, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(f"{path} cannot be read as Parquet: {reason}; write the file again") from error
    return [
        Record(where=f"record {place + 1}", row={name: column[place] for name, column in columns.items()})
        for place in range(table.num_rows)
    ]


_FORMATS: dict[str, Callable[[Path, bytes], list[Record]]] = {
    ".jsonl": _lines,
    ".json": _whole_json,
    ".csv": _csv,
    ".parquet": _parquet,
}


PROMPT = ("prompt", "prefix_text", "prefix", "context")
"""Keys of the prompt, the first that holds one; likewise the others."""
REFERENCE = ("reference", "reference_text", "gold_ref", "gold")
STRATEGY = ("strategy", "method", "decoding")
ID = ("prompt_id", "id")
TOKENS = ("new_tokens", "tokens")

UNNAMED = "unnamed"
"""The dataset of records that do not name theirs."""

_N = TypeVar("_N")

_WHOLE = ("gen_text", "gold_ref")
"""Keys under which contrastive decoding's authors publish prompt and continuation in one."""
_SEVERAL = ("generated_text", "generated_result")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBERED = re.compile(r"""\s*\{\s*(["'])0\1\s*:""")


def read_generations(
    path: Path,
    *,
    prompts: Mapping[str, Prompt] | None = None,
    strategy: str | None = None,
    dataset: str | None = None,
    all_texts: bool = False,
) -> list[Generation]:
    """Return the generations of `path` in the file's order.

    What was replaced or left out stands in `Generation.flaws`: `not UTF-8`, `no text`, `prompt unknown`,
    `prompt repeated` (second and later ones), `further texts of the prompt not read`, `text begins with its
    prompt`, `tokens not a number` (likewise seconds and batch), and, on the last one, `torn last line`.

    Args:
        path: A `.jsonl`, `.json`, `.csv` or `.parquet` file.
        prompts: By id; where a record has no prompt or no reference it is taken from here.
        strategy: Of records that do not name theirs; the file's stem if not given.
        dataset: Of records that do not name theirs; else their prompt's, else `UNNAMED`.
        all_texts: Take every text of a prompt, not the first alone.

    Raises:
        StudyError: The file cannot be used; file, record, value and remedy are named. Lines of `guard-eval
            generate` must be as they were made, and those of a strategy by one recipe.
    """
    records = read_records(path)
    if not records:
        raise StudyError(f"{path} holds no generations; write one JSON object a line, each with a key 'text'")
    found: list[Generation] = []
    seen: set[tuple[str, str, bool, str]] = set()
    kinds: dict[str, tuple[Recipe, str]] = {}
    for number, record in enumerate(records, start=1):
        if HASH in record.row and path.suffix.lower() != ".csv":  # which makes strings of numbers
            _refuse_mixture(path, record, kinds)
        reader = _RecordReader(path, record)
        name = reader.prompt_id()
        known = (prompts or {}).get(name) if name is not None else None
        texts = reader.texts()
        first = Generation(
            prompt_id=name if name is not None else f"{number:04d}",
            dataset=reader.string(("dataset",)) or dataset or (known.dataset if known else UNNAMED),
            strategy=reader.string(STRATEGY) or strategy or path.stem,
            text=texts[0],
            prompt=reader.string(PROMPT),
            reference=reader.string(REFERENCE),
            tokens=reader.figure(TOKENS, _whole),
            ended=None if (finish := reader.string(("finish",))) is None else finish == "eos",
            seconds=reader.figure(("seconds",), _number),
            batch=reader.figure(("batch",), _whole),
            device=reader.string(("device",)),
        )
        if prompts is not None and (first.prompt is None or first.reference is None):
            first = _completed(first, known, reader.flaws)
        reader.flaws += _flaws_of(first, seen, made_up=name is None)
        if len(texts) > 1 and not all_texts:
            reader.flaws.append(FURTHER)
        flaws = tuple(dict.fromkeys(reader.flaws))
        found += [replace(first, text=text, flaws=flaws) for text in (texts if all_texts else texts[:1])]
    return found


def _refuse_mixture(path: Path, record: Record, kinds: dict[str, tuple[Recipe, str]]) -> None:
    """Make sure that a line of ours is as it was made, and by the same recipe as the strategy's others."""
    where = f"{path}, {record.where}"
    recipe = continuation_of(dict(record.row), where).recipe
    first, before = kinds.setdefault(recipe.strategy, (recipe, where))
    name = differing_field(first, recipe)
    if name:
        raise StudyError(
            f"{where}: {recipe.strategy} with {name} {getattr(recipe, name)!r}, and {getattr(first, name)!r} "
            f"in {before}; measure texts of one recipe at a time, or their study, which knows which of them "
            "count"
        )


def _completed(generation: Generation, known: Prompt | None, flaws: list[str]) -> Generation:
    if known is None:
        flaws.append("prompt unknown")
        return generation
    return replace(
        generation,
        prompt=known.text if generation.prompt is None else generation.prompt,
        reference=known.reference if generation.reference is None else generation.reference,
    )


def _flaws_of(one: Generation, seen: set[tuple[str, str, bool, str]], *, made_up: bool) -> Iterator[str]:
    key = one.prompt if made_up else one.prompt_id
    if key is not None:
        mark = (one.dataset, one.strategy, made_up, key)
        if mark in seen:
            yield "prompt repeated"
        seen.add(mark)
    if one.prompt and one.text.startswith(one.prompt):  # as pipelines write it; every metric would count it
        yield "text begins with its prompt"


class _RecordReader:
    """Values of one record, under whichever key they stand, and what was the matter with them."""

    def __init__(self, path: Path, record: Record) -> None:
        self._at = f"{path}, {record.where}"
        self._row = record.row
        self.flaws = list(record.flaws)

    def texts(self) -> list[str]:
        """Return the texts, at least one."""
        keys = [key for key in TEXT if key in self._row]
        if not keys:
            have = ", ".join(map(repr, self._row)) or "nothing"
            raise StudyError(
                f"{self._at}: has no text, only {have:.300}; name its key one of {', '.join(TEXT)}"
            )
        key, value = self._first(tuple(keys)) or (keys[0], None)
        first, *others = self._numbered(key, value) or [None]
        if first is None:
            self.flaws.append("no text")
            first = ""
        return [
            self._less_prompt(key, self._text(key, text)) for text in (first, *others) if text is not None
        ]

    def string(self, keys: tuple[str, ...]) -> str | None:
        """Return the string under the first of `keys` that has one."""
        found = self._first(keys)
        return None if found is None else self._less_prompt(found[0], self._text(*found))

    def prompt_id(self) -> str | None:
        """Return the prompt's id; whole numbers will do."""
        found = self._first(ID)
        if found is None:
            return None
        whole = _whole(found[1])
        return self._text(*found) if isinstance(found[1], str) or whole is None else str(whole)

    def figure(self, keys: tuple[str, ...], read: Callable[[object], _N | None]) -> _N | None:
        """Return what `read` makes of the value under the first of `keys` that has one; nothing is a flaw."""
        found = self._first(keys)
        if found is None:
            return None
        value = read(found[1])
        if value is None:
            self.flaws.append(f"{keys[-1]} not a number")
        return value

    def _less_prompt(self, key: str, text: str) -> str:
        """Return what follows the prompt, where a key holds the whole text."""
        prompt = self._first(PROMPT)
        return text.removeprefix(str(prompt[1])) if prompt and key in _WHOLE else text

    def _first(self, keys: tuple[str, ...]) -> tuple[str, Any] | None:
        return next(((key, self._row[key]) for key in keys if self._row.get(key) is not None), None)

    def _numbered(self, key: str, value: object) -> list[object]:
        if key not in _SEVERAL:
            return [value]
        if isinstance(value, str) and _NUMBERED.match(value):
            value = self._object(key, value)
        if isinstance(value, Mapping):
            order = sorted(value, key=lambda name: int(name) if str(name).isdecimal() else math.inf)
            return [value[name] for name in order]
        return value if isinstance(value, list) else [value]

    def _object(self, key: str, value: str) -> object:
        """Parse an object that a table holds as JSON, or as pandas writes a dict."""
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(value)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
        raise StudyError(
            f"{self._at}: {key!r} begins like an object and cannot be read: {value[:60]!r}; write valid JSON"
        )

    def _text(self, key: str, value: object) -> str:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        if not isinstance(value, str):
            shown = repr(value)
            shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
            raise StudyError(f"{self._at}: {key!r} is {shown}; it must be a string")
        valid = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
        if valid != value:
            self.flaws.append("not UTF-8")
        return valid


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _whole(value: object) -> int | None:
    if isinstance(value, list):  # the tokens themselves
        return len(value)
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None
