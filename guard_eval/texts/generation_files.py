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
from guard_eval.texts.harness_samples import is_sample, read_sample
from guard_eval.texts.rows import TEXT, read_rows

FURTHER = "further texts of the prompt not read"
"""The flaw of a record that holds several texts, of which the first is measured."""

UNNAMED = "unnamed"
"""The dataset of records that do not name theirs."""

_KEYS = {
    "prompt": ("prompt", "prefix_text", "prefix", "context"),
    "reference": ("reference", "reference_text", "gold_ref", "gold"),
    "strategy": ("strategy", "method", "decoding"),
    "prompt_id": ("prompt_id", "id"),
    "tokens": ("new_tokens", "tokens"),
    "seconds": ("time_cost", "seconds"),
}
"""Under which keys a value stands, if not under its name alone; the first that holds one counts."""
_WITH_PROMPT = ("gen_text", "gold_ref")
"""Keys under which contrastive decoding's authors publish prompt and continuation in one."""
_OF_SEVERAL = ("generated_text", "generated_result")
"""Keys that may hold several texts of one prompt."""
_OWN_KEYS = {"prompt_id", "text", "new_tokens", "finish"}
"""Keys of the toolkit's own lines, which name each text's run."""
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
    prompt`, and `tokens not a number` (likewise seconds and batch).

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
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    runs = _Runs(count=all_runs)
    generations = []
    for position, record in enumerate(read_rows(path), start=1):
        if is_sample(record):
            generations.append(read_sample(record, path))
            continue
        rows = (record.row, *record.further) if all_runs else (record.row,)
        for column, row in product(columns or (None,), rows):
            fields = Fields(record.where, row, column)
            texts, own = fields.texts(), row.keys() >= _OWN_KEYS
            first = fields.generation(prompts, dataset, strategy or stem, len(texts))
            if column is not None and len(columns) > 1:
                first = replace(first, strategy=column)
            further = not all_runs and len(texts) + len(record.further) > 1
            for text in texts if all_runs else texts[:1]:
                generation, flaws = runs.numbered(replace(first, text=text), position, own=own)
                if generation.prompt and text.startswith(generation.prompt):  # every metric would count it
                    flaws.append("text begins with its prompt")
                flaws = [*fields.flaws, *flaws, *[FURTHER] * further]
                generations.append(replace(generation, flaws=tuple(dict.fromkeys(flaws))))
    if not generations:
        raise StudyError(f"{path} holds no generations; write one JSON object a line, each with a key 'text'")
    return generations


class _Runs:
    """Which text of its prompt each is, and prompts that come again."""

    def __init__(self, *, count: bool) -> None:
        self._count = count
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._numbers: dict[tuple[str, str], str] = {}

    def numbered(self, text: Generation, position: int, *, own: bool) -> tuple[Generation, list[str]]:
        """Return a text with its run and the id of its prompt, and what is wrong with these.

        Args:
            text: The text.
            position: The number of its record, from which it has its id if nothing else names the prompt.
            own: Whether the toolkit wrote it, which names its run.
        """
        named, key = bool(text.prompt_id), text.prompt_id or text.prompt
        text = replace(text, run=text.run if own else 1, prompt_id=text.prompt_id or f"{position:04d}")
        if key is None:
            return text, []
        mark = (text.dataset, text.strategy, named, key, text.run)
        before = self._seen[mark]
        self._seen[mark] += 1
        if not self._count or own:
            return text, ["prompt repeated"] if before else []
        if not named:
            key = self._numbers.setdefault((text.dataset, key), f"{len(self._numbers) + 1:04d}")
        return replace(text, prompt_id=key, run=1 + before), []


class Fields:
    """The values of a record, under whichever key they are, and what was wrong with them."""

    def __init__(self, where: str, row: Mapping[str, Any], column: str | None = None) -> None:
        self._where, self._row, self._column = where, dict(row), column
        self.flaws: list[str] = []

    def texts(self) -> list[str]:
        """Return the texts, at least one."""
        keys = (self._column,) if self._column else TEXT
        present = [key for key in keys if key in self._row]
        if not present:
            raise StudyError(
                f"{self._where}: has no {' or '.join(keys)}, only {', '.join(self._row):.300}; name "
                "the text so, or say which it is: --column NAME"
            )
        key = next((key for key in present if self._row[key] is not None), present[0])
        first, *others = self._several(key) or [None]
        if first is None:
            self.flaws.append("no text")
        return [self._text(key, text) for text in (first or "", *others) if text is not None]

    def generation(
        self, prompts: Mapping[str, Prompt] | None, dataset: str | None, strategy: str, texts: int
    ) -> Generation:
        """Return what the record says beside its texts, of which there are so many."""
        prompt_id, prompt, reference = (self.string(name) for name in ("prompt_id", "prompt", "reference"))
        known = prompts.get(prompt_id or "") if prompts else None
        if known is None and prompts is not None and None in {prompt, reference}:
            self.flaws.append("prompt unknown")
        finish, seconds = self.string("finish"), self._number("seconds")
        return Generation(
            prompt_id=prompt_id or "",
            dataset=self.string("dataset") or dataset or (known.dataset if known else UNNAMED),
            strategy=self.string("strategy") or strategy,
            text="",
            prompt=known.text if known and prompt is None else prompt,
            reference=known.reference if known and reference is None else reference,
            tokens=self._whole("tokens"),
            ended=None if finish is None else finish == "eos",
            seconds=None if seconds is None else seconds / texts,
            batch=self._whole("batch"),
            device=self.string("device"),
            run=self._whole("run") or 1,
        )

    def _find(self, name: str) -> tuple[str, Any]:
        """Return the first key with a value, and the value. An empty cell says that nothing is known."""
        present = ((key, self._row.get(key)) for key in _KEYS.get(name, (name,)))
        return next(
            ((key, value) for key, value in present if value is not None and value != ""), (name, None)
        )

    def string(self, name: str) -> str | None:
        """Return the text under a name; ids and datasets may be whole numbers, which pandas writes as 1.0."""
        key, value = self._find(name)
        if name in {"id", "prompt_id", "dataset"} and type(value) in {int, float} and value == value // 1:
            return str(int(value))
        return None if value is None else self._text(key, value)

    def _number(self, name: str) -> float | None:
        """Return a number that is not negative; another value is a flaw."""
        _, value = self._find(name)
        try:
            number = (
                math.nan
                if isinstance(value, bool)
                else float(len(value) if isinstance(value, list) else value)
            )
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if 0 <= number < math.inf:
            return number
        self.flaws += [] if value is None else [f"{name} not a number"]
        return None

    def _whole(self, name: str) -> int | None:
        number = self._number(name)
        if number is not None and number.is_integer():
            return int(number)
        self.flaws += [] if number is None else [f"{name} not a number"]
        return None

    def _several(self, key: str) -> list[object]:
        """Return the texts under a key: one, or several as a list or as an object with numbers."""
        value = self._row[key]
        if key not in (self._column, *_OF_SEVERAL):
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
            self._row |= {"time_cost": value["time_cost"]} if "time_cost" in value else {}  # of all texts
            names = sorted((name for name in value if str(name).isdecimal()), key=int) or value
            return [value[name] for name in names]
        return value if isinstance(value, list) else [value]

    def _text(self, key: str, value: object) -> str:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        if not isinstance(value, str):
            raise StudyError(f"{self._where}: {key!r} is {value!r:.60}; it must be a string")
        text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
        if text != value:
            self.flaws.append("not UTF-8")
        return text.removeprefix(self.string("prompt") or "") if key in _WITH_PROMPT else text
