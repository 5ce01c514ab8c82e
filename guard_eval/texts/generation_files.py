"""Reading the files of generations people have, whatever their keys are called.

The published scripts of this line of work write JSON lists of `prefix_text`, `reference_text` and
`generated_result`, the last one as `{"0": text, "1": text, …}`, and measure text "0" alone; so do we, unless
asked for all. The toolkit's own continuation files name each text's run, and no prompt, which is looked up by
its id. A text that leaves here holds U+FFFD where its file is not UTF-8.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.generations import Generation
from guard_eval.texts.harness_samples import is_samples, read_samples
from guard_eval.texts.rows import TEXT, Record, read_records

FURTHER = "further texts of the prompt not read"
"""The flaw of a record that holds several texts, of which the first is measured."""


PROMPT = ("prompt", "prefix_text", "prefix", "context")
"""Keys of the prompt, the first that holds one; likewise the others."""
REFERENCE = ("reference", "reference_text", "gold_ref", "gold")
STRATEGY = ("strategy", "method", "decoding")
ID = ("prompt_id", "id")
TOKENS = ("new_tokens", "tokens")
SECONDS = ("time_cost", "seconds")

UNNAMED = "unnamed"
"""The dataset of records that do not name theirs."""

_N = TypeVar("_N")

_WHOLE = ("gen_text", "gold_ref")
"""Keys under which contrastive decoding's authors publish prompt and continuation in one."""
_SEVERAL = ("generated_text", "generated_result")
_OWN = {"prompt_id", "text", "new_tokens", "finish"}
"""Keys of the toolkit's own lines, which name each text's run."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBERED = re.compile(r"""\s*\{\s*(["'])0\1\s*:""")


def read_generations(
    path: Path,
    *,
    prompts: Mapping[str, Prompt] | None = None,
    strategy: str | None = None,
    dataset: str | None = None,
    columns: Sequence[str] = (),
    all_runs: bool = False,
) -> list[Generation]:
    """Return the generations of `path` in the file's order.

    `Generation.flaws` lists what was replaced or left out: `not UTF-8`, `no text`, `prompt unknown`,
    `prompt repeated` (second and later ones), `further texts of the prompt not read`, `text begins with its
    prompt`, `tokens not a number` (likewise seconds and batch), and, on the last one, `torn last line`.

    Args:
        path: A `.jsonl`, `.json`, `.csv`, `.xlsx` or `.parquet` file.
        prompts: By id; where a record has no prompt or no reference it is taken from here.
        strategy: Of records that do not name theirs; the file's stem if not given.
        dataset: Of records that do not name theirs; else their prompt's, else `UNNAMED`.
        columns: Keys or columns of the texts, in place of `TEXT`; of several each is a strategy of its name.
        all_runs: Take every text of a prompt, not the first alone, and prompts that come again as further
            runs. Records without an id have the number of their prompt then.

    Raises:
        StudyError: The file cannot be used; file, record, value and remedy are named.
    """
    if is_samples(path):
        return read_samples(path)
    records = read_records(path)
    if not records:
        raise StudyError(f"{path} holds no generations; write one JSON object a line, each with a key 'text'")
    found: list[Generation] = []
    runs = _Runs(count=all_runs)
    for number, record in enumerate(records, start=1):
        several = record.further if all_runs else ()
        for column, row in product(columns or (None,), (record.row, *several)):
            reader = _RecordReader(path, replace(record, row=row), column)
            texts, name = reader.texts(), reader.prompt_id()
            first = Generation(
                prompt_id=name if name is not None else f"{number:04d}",
                dataset=reader.string(("dataset",)) or dataset or UNNAMED,
                strategy=(column if len(columns) > 1 else reader.string(STRATEGY))
                or strategy
                or path.name.removesuffix(".gz").rpartition(".")[0],
                text=texts[0],
                prompt=reader.string(PROMPT),
                reference=reader.string(REFERENCE),
                tokens=reader.figure(TOKENS, _whole),
                ended=None if (finish := reader.string(("finish",))) is None else finish == "eos",
                seconds=None if (time := reader.figure(SECONDS, _number)) is None else time / len(texts),
                batch=reader.figure(("batch",), _whole),
                device=reader.string(("device",)),
                run=(reader.figure(("run",), _whole) or 1) if row.keys() >= _OWN else 1,
            )
            if prompts is not None:
                first = _completed(first, prompts, reader, dataset=reader.string(("dataset",)) or dataset)
            left = len(texts) + len(record.further) > 1 and not all_runs
            for text in texts if all_runs else texts[:1]:
                one, again = runs.numbered(
                    replace(first, text=text), named=name is not None, own=row.keys() >= _OWN
                )
                flaws = [*reader.flaws, *(["prompt repeated"] if again else [])]
                if one.prompt and text.startswith(
                    one.prompt
                ):  # as pipelines write it; every metric would count it
                    flaws.append("text begins with its prompt")
                flaws += [FURTHER] if left else []
                found.append(replace(one, flaws=tuple(dict.fromkeys(flaws))))
    return found


class _Runs:
    """Which text of its prompt each is, and prompts that come again."""

    def __init__(self, *, count: bool) -> None:
        self._count = count
        self._seen: Counter[tuple[str, str, bool, str, int]] = Counter()
        self._numbers: dict[tuple[str, str], str] = {}

    def numbered(self, one: Generation, *, named: bool, own: bool) -> tuple[Generation, bool]:
        """Return a text with its run, and whether its prompt comes again without being a further run.

        Args:
            one: The text.
            named: Whether its record names the prompt.
            own: Whether the toolkit wrote it, which names its run.
        """
        key = one.prompt_id if named else one.prompt
        if key is None:
            return one, False
        mark = (one.dataset, one.strategy, named, key, one.run)
        again = self._seen[mark]
        self._seen[mark] += 1
        if not self._count or own:
            return one, again > 0
        number = one.prompt_id
        if not named:
            number = self._numbers.setdefault((one.dataset, key), f"{len(self._numbers) + 1:04d}")
        return replace(one, prompt_id=number, run=1 + again), False


def _completed(
    generation: Generation, prompts: Mapping[str, Prompt], reader: _RecordReader, *, dataset: str | None
) -> Generation:
    """Return a text with what is known of its prompt."""
    known = prompts.get(generation.prompt_id) if reader.prompt_id() is not None else None
    if known is None:
        if generation.prompt is None or generation.reference is None:
            reader.flaws.append("prompt unknown")
        return generation
    return replace(
        generation,
        dataset=dataset or known.dataset,
        prompt=known.text if generation.prompt is None else generation.prompt,
        reference=known.reference if generation.reference is None else generation.reference,
    )


class _RecordReader:
    """Values of one record, under whichever key they stand, and what was the matter with them."""

    def __init__(self, path: Path, record: Record, column: str | None = None) -> None:
        self._at = f"{path}, {record.where}"
        self._texts = TEXT if column is None else (column,)
        self._several = _SEVERAL if column is None else (column,)
        # An empty cell is a value of texts alone; elsewhere it says that nothing is known.
        self._row = {
            name: value
            for name, value in record.row.items()
            if value or name in self._texts or not record.cells
        }
        self.flaws = list(record.flaws)

    def texts(self) -> list[str]:
        """Return the texts, at least one."""
        keys = [key for key in self._texts if key in self._row]
        if not keys:
            have = ", ".join(map(repr, self._row)) or "nothing"
            if self._texts is not TEXT:
                raise StudyError(f"{self._at}: has no {self._texts[0]!r}, only {have:.300}; name one of them")
            raise StudyError(
                f"{self._at}: has no text, only {have:.300}; name its key one of {', '.join(TEXT)}, or say "
                "which it is: --column NAME"
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
        if key not in self._several:
            return [value]
        if isinstance(value, str) and _NUMBERED.match(value):
            value = self._object(key, value)
        if isinstance(value, Mapping):
            numbered = [name for name in value if str(name).isdecimal()]
            if numbered and "time_cost" in value:  # of all texts together
                self._row = {**self._row, "time_cost": value["time_cost"]}
            return [value[name] for name in sorted(numbered, key=int) or value]
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
