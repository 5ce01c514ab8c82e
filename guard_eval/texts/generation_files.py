"""Read the files of generations that people have, whatever their keys are called.

The published scripts of this line of work write JSON lists of `prefix_text`, `reference_text` and
`generated_result`, the last one as `{"0": text, "1": text, …}`, and measure text "0" alone; so do we, unless
asked for all. The toolkit's own files name each text's run, and no prompt, which is looked up by its id. A
text that leaves here holds U+FFFD where its file is not UTF-8.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.generations import Generation
from guard_eval.texts.harness_samples import is_samples, read_samples
from guard_eval.texts.rows import TEXT, read_rows

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
        prompts: By id, for records that have no prompt or no reference.
        strategy: That of records that do not name theirs; the file's stem if not given.
        dataset: That of records that do not name theirs; else their prompt's, else `UNNAMED`.
        columns: Keys or columns of the texts, in place of `TEXT`; of several each is a strategy of its name.
        all_runs: Take every text of a prompt, not the first alone, and prompts that come again as further
            runs. Records without an id have the number of their prompt then.

    Raises:
        StudyError: The file cannot be used; file, record, value and remedy are named.
    """
    if is_samples(path):
        return read_samples(path)
    records = read_rows(path)
    if not records:
        raise StudyError(f"{path} holds no generations; write one JSON object a line, each with a key 'text'")
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    runs = _Runs(count=all_runs)
    generations = []
    for number, record in enumerate(records, start=1):
        rows = (record.row, *record.further) if all_runs else (record.row,)
        for column, row in product(columns or (None,), rows):
            fields = _Fields(f"{path}, {record.where}", row, column)
            texts = fields.texts()
            named = column if len(columns) > 1 else fields.string(STRATEGY)
            first = _generation(fields, prompts, dataset, named or strategy or stem, len(texts))
            further = not all_runs and len(texts) + len(record.further) > 1
            for text in texts if all_runs else texts[:1]:
                generation, flaws = runs.numbered(replace(first, text=text), number, own=row.keys() >= _OWN)
                if generation.prompt and text.startswith(generation.prompt):  # every metric would count it
                    flaws.append("text begins with its prompt")
                flaws += [FURTHER] * further + ["torn last line"] * record.torn
                flaws = list(dict.fromkeys((*fields.flaws, *flaws)))
                generations.append(replace(generation, flaws=tuple(flaws)))
    return generations


def _generation(
    fields: _Fields, prompts: Mapping[str, Prompt] | None, dataset: str | None, strategy: str, texts: int
) -> Generation:
    """Return what a record says beside its texts, of which there are so many; the id is "" if it has none."""
    prompt_id, prompt, reference = fields.prompt_id(), fields.string(PROMPT), fields.string(REFERENCE)
    known = None if prompts is None else prompts.get(prompt_id)
    if known is None and prompts is not None and (prompt is None or reference is None):
        fields.flaws.append("prompt unknown")
    finish, seconds = fields.string(("finish",)), fields.number(SECONDS)
    return Generation(
        prompt_id=prompt_id,
        dataset=fields.string(("dataset",)) or dataset or (known.dataset if known else UNNAMED),
        strategy=strategy,
        text="",
        prompt=known.text if known and prompt is None else prompt,
        reference=known.reference if known and reference is None else reference,
        tokens=fields.whole(TOKENS),
        ended=None if finish is None else finish == "eos",
        seconds=None if seconds is None else seconds / texts,
        batch=fields.whole(("batch",)),
        device=fields.string(("device",)),
        run=fields.whole(("run",)) or 1,
    )


class _Runs:
    """Which text of its prompt each is, and prompts that come again."""

    def __init__(self, *, count: bool) -> None:
        self._count = count
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._numbers: dict[tuple[str, str], str] = {}

    def numbered(self, text: Generation, number: int, *, own: bool) -> tuple[Generation, list[str]]:
        """Return a text with its run and the id of its prompt, and what is wrong with these.

        Args:
            text: The text.
            number: The number of its record, from which it has its id if nothing else names the prompt.
            own: Whether the toolkit wrote it, which names its run.
        """
        run, named, key = text.run if own else 1, bool(text.prompt_id), text.prompt_id or text.prompt
        text = replace(text, run=run, prompt_id=text.prompt_id or f"{number:04d}")
        if key is None:
            return text, []
        mark = (text.dataset, text.strategy, named, key, run)
        before = self._seen[mark]
        self._seen[mark] += 1
        if not self._count or own:
            return text, ["prompt repeated"] if before else []
        if not named:
            key = self._numbers.setdefault((text.dataset, key), f"{len(self._numbers) + 1:04d}")
        return replace(text, prompt_id=key, run=1 + before), []


class _Fields:
    """The values of a record, under whichever key they are, and what was wrong with them."""

    def __init__(self, where: str, row: Mapping[str, Any], column: str | None) -> None:
        self._where = where
        self._texts = TEXT if column is None else (column,)
        self._several = _SEVERAL if column is None else (column,)
        self._row = dict(row)
        self.flaws: list[str] = []

    def texts(self) -> list[str]:
        """Return the texts, at least one."""
        keys = [key for key in self._texts if key in self._row]
        if not keys:
            have = ", ".join(map(repr, self._row)) or "nothing"
            if self._texts is not TEXT:
                raise StudyError(
                    f"{self._where}: has no {self._texts[0]!r}, only {have:.300}; name one of them"
                )
            raise StudyError(
                f"{self._where}: has no text, only {have:.300}; name it one of {', '.join(TEXT)}, or say "
                "which it is: --column NAME"
            )
        key = next((key for key in keys if self._row[key] is not None), keys[0])
        first, *others = self._numbered(key) or [None]
        if first is None:
            self.flaws.append("no text")
            first = ""
        return [self._text(key, text) for text in (first, *others) if text is not None]

    def string(self, keys: tuple[str, ...]) -> str | None:
        """Return the string under the first of `keys` that has one."""
        key = self._first(keys)
        return None if key is None else self._text(key, self._row[key])

    def prompt_id(self) -> str:
        """Return the prompt's id, which may be a whole number; "" if there is none."""
        key = self._first(ID)
        if key is None:
            return ""
        number = None if isinstance(self._row[key], str) else _whole(self._row[key])
        return self._text(key, self._row[key]) if number is None else str(number)

    def number(self, keys: tuple[str, ...]) -> float | None:
        """Return the number under the first of `keys` that has a value; another value is a flaw."""
        key = self._first(keys)
        value = None if key is None else _number(self._row[key])
        if key is not None and value is None:
            self.flaws.append(f"{keys[-1]} not a number")
        return value

    def whole(self, keys: tuple[str, ...]) -> int | None:
        """Return the whole number under the first of `keys` that has a value; another value is a flaw."""
        key = self._first(keys)
        value = None if key is None else _whole(self._row[key])
        if key is not None and value is None:
            self.flaws.append(f"{keys[-1]} not a number")
        return value

    def _first(self, keys: tuple[str, ...]) -> str | None:
        """Return the first key with a value. An empty cell of a table says that nothing is known."""
        return next((key for key in keys if self._row.get(key) is not None and self._row[key] != ""), None)

    def _numbered(self, key: str) -> list[object]:
        """Return the texts under a key: one, or several as a list or as an object with numbers."""
        value = self._row[key]
        if key not in self._several:
            return [value]
        if isinstance(value, str) and (begin := _NUMBERED.match(value)):
            try:  # in a cell it is JSON, or an object as pandas writes it
                value = json.loads(value) if begin[1] == '"' else ast.literal_eval(value)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                raise StudyError(
                    f"{self._where}: {key!r} begins like an object and cannot be read: {value[:60]!r}; write "
                    "valid JSON"
                ) from None
        if isinstance(value, Mapping):
            numbered = [name for name in value if str(name).isdecimal()]
            if numbered and "time_cost" in value:  # of all texts together
                self._row["time_cost"] = value["time_cost"]
            return [value[name] for name in sorted(numbered, key=int) or value]
        return value if isinstance(value, list) else [value]

    def _text(self, key: str, value: object) -> str:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        if not isinstance(value, str):
            shown = repr(value)
            shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
            raise StudyError(f"{self._where}: {key!r} is {shown}; it must be a string")
        valid = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
        if valid != value:
            self.flaws.append("not UTF-8")
        if key in _WHOLE and (prompt := self._first(PROMPT)):
            valid = valid.removeprefix(str(self._row[prompt]))
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
