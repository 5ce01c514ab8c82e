"""Read generated texts from files, whose keys may have any of the usual names.

Published scripts in this field write JSON lists of `prefix_text`, `reference_text` and `generated_result`.
The last key holds `{"0": text, "1": text, …}`; the scripts measure only text "0", as this module does. Files
of `guard-eval generate` have no prompts, so prompts are looked up by their ids. Bytes that are
not UTF-8 are refused, or become U+FFFD.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from guard_eval.errors import StudyError
from guard_eval.files.headings import simplify_heading
from guard_eval.files.rows import Encoding, parse_cell
from guard_eval.records import Finish, Generation, Prompt
from guard_eval.texts.rows import (
    KEYS,
    TEXT,
    Record,
    find_system_column,
    find_text_columns,
    read_data_frame,
    read_rows,
    refuse_ambiguous_columns,
    refuse_side_columns,
    refuse_unnamed_prompts,
)

FURTHER = "further texts of the prompt not read"
"""The `Generation.flaws` entry of a record with several texts. Only the first text is measured."""

UTF8_REMEDY = r"save the file as UTF-8, without halves of characters such as \ud83d"
NOT_UTF8 = "not UTF-8"
"""The `Generation.flaws` entry of a text with bytes that are not UTF-8. These bytes became U+FFFD."""
ECHO = "text begins with its prompt"
"""The `Generation.flaws` entry of a text that repeats its prompt. Metrics would count the prompt, too."""

_WITH_PROMPT = ("gen_text", "gold_ref")
"""Keys of texts that include the prompt, in the files of contrastive decoding's authors."""
_OF_SEVERAL = ("generated_text", "generated_result")
"""Keys that may hold several texts of one prompt."""
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst|zip)$", re.IGNORECASE)
_FINISHES: dict[str, Finish] = {
    **dict.fromkeys(("eos", "stop_sequence", "end_turn", "EOS"), "eos"),
    **dict.fromkeys(("length", "max_tokens", "MAX_TOKENS"), "length"),
    "stop": "stop",
}
"""The reason why a text ended (`Finish`), by the name that servers and programs give it."""
Number = TypeVar("Number", int, float)
_NUMBERED = re.compile(r"""\s*\{\s*(["'])0\1\s*:""")
_MOST_COLUMNS = 2048
_REMEDY = (
    "If they are the prompts' ids, rename it to 'prompt_id', here and in the file of prompts. Otherwise "
    "write the texts in the order of the prompts, and remove it"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_COUNT = TypeAdapter(Annotated[int, Field(ge=0)])
_AMOUNT = TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)])


def read_generations(
    path: Path,
    *,
    prompts: Mapping[str, Prompt] | None = None,
    columns: Sequence[str] = (),
) -> list[Generation]:
    """Return the generations of `path` in the file's order.

    `Generation.flaws` lists replaced or missing data: `not UTF-8`, `no text`, `prompt unknown`,
    `prompt repeated` (second and later ones), `further texts of the prompt not read`, `text begins with its
    prompt`, and `tokens not a number` (likewise seconds, batch and run).

    Args:
        path: The file. Its stem is the strategy of records without a strategy.
        prompts: Prompts by id. They complete records without a prompt or a reference.
        columns: Keys or columns of the texts, in place of `TEXT`. If there are several, each column is a
            strategy with the column's name. Default: if each system has a column, all these columns.

    Raises:
        StudyError: The file cannot be used. The message names file, record, value and remedy.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    numbers: dict[tuple[object, ...], int] = {}
    generations = []
    table = TextTable.open(path, errors="surrogateescape").add_prompt_ids(
        (prompts or {}).values(), columns=columns
    )
    for position, text in table.read_texts(columns, prompts=prompts):
        flaws = text.flaws
        key = (text.dataset, text.strategy, text.run, text.prompt_id or text.prompt)
        if key[-1] is not None and key in seen:
            flaws = (*flaws, "prompt repeated")
        seen[key] += 1
        # Without an id, strategies are compared on a prompt's first texts, its second texts, and so on.
        number = numbers.setdefault((text.dataset, key[-1] or position, seen[key]), position)
        generations.append(replace(text, prompt_id=text.prompt_id or f"{number:04d}", flaws=flaws))
    return generations


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """The rows of a file of texts, or of a data frame.

    Attributes:
        name: The file's name, for messages.
        stem: The system's name for rows without a system.
        records: The rows.
        errors: How to treat bytes that are not UTF-8.
    """

    name: str
    stem: str
    records: Sequence[Record]
    errors: Encoding

    @classmethod
    def open(
        cls,
        source: Path | Any,  # noqa: ANN401 (or a data frame, of whatever library)
        *,
        errors: Encoding = "strict",
    ) -> Self:
        """Read a file or a data frame. `errors` says how to treat bytes that are not UTF-8.

        Raises:
            StudyError: The file cannot be read, or has no rows.
        """
        if isinstance(source, Path):
            name = str(source)
            records = list(read_rows(source, errors=errors, plain="text"))
            stem = Path(_PACKED.sub("", source.name)).stem.strip() or "unnamed"
        elif not hasattr(source, "itertuples"):
            kind = type(source).__name__
            raise StudyError(f"{kind} is not a source of texts; give a file or a pandas data frame")
        else:
            name = stem = "the data frame"
            records = list(read_data_frame(source))
        if not records:
            raise StudyError(
                f"{name} has no generations; write one JSON object a line, each with a key 'text'"
            )
        return cls(name=name, stem=stem, records=records, errors=errors)

    def add_prompt_ids(self, prompts: Collection[Prompt], *, columns: Collection[str] = ()) -> Self:
        """Return the table with the prompts' ids, if a column with another heading has them.

        Texts without prompts and ids would be matched by their order in the file. A table that has them is
        returned unchanged.

        Args:
            prompts: The prompts.
            columns: The columns of texts that the user has named.

        Raises:
            StudyError: A column has the prompts' words, or their numbers in another order.
        """
        rows = [record.row for record in self.records]
        if len(rows) == 1 and rows[0].keys() <= {prompt.id for prompt in prompts}:  # an object: id → text
            texts = [{"prompt_id": name, "text": text} for name, text in rows[0].items()]
            return replace(self, records=[replace(self.records[0], row=text) for text in texts])
        if len(rows[0]) > _MOST_COLUMNS:
            raise StudyError(f"{self.name} has {len(rows[0]):,} columns; remove columns that are not needed")
        if any(key in row for row in rows for key in KEYS["prompt"]):
            return self
        if key := self._find_words_of_prompts({prompt.text.strip() for prompt in prompts}, columns):
            records = [
                replace(
                    record, row={"prompt" if name == key else name: cell for name, cell in record.row.items()}
                )
                for record in self.records
            ]
            return replace(self, records=records)
        ids = [str(value) for row in rows for key in KEYS["prompt_id"] if (value := row.get(key)) is not None]
        if {*filter(None, map(_format_id, ids))} & {prompt.id for prompt in prompts}:
            return self
        values = {key: [_format_id(row.get(key)) for row in rows] for key in rows[0]}
        columns_of_ids = _find_columns_of_ids(prompts)
        vocabulary = set(chain.from_iterable(ids for _, ids in columns_of_ids))
        with_ids = [
            key for key, cells in values.items() if 2 * sum(map(vocabulary.__contains__, cells)) >= len(cells)
        ]
        # A batch of OpenAI has an id of its own beside the custom_id.
        called_id = [key for key in values if simplify_heading(key).endswith("id")]
        for key in dict.fromkeys([*with_ids, *called_id]):
            cells = values[key]
            if prompt_ids := self._find_prompt_ids(key, cells, columns_of_ids):
                records = [
                    replace(record, row={**record.row, "prompt_id": prompt_ids.get(cell, cell)})
                    for record, cell in zip(self.records, cells, strict=True)
                ]
                return replace(self, records=records)
        if not ids:
            self._refuse_other_order({key: values[key] for key in values if key not in TEXT}, prompts)
        return self

    def _find_words_of_prompts(self, words: set[str], columns: Collection[str]) -> str:
        """Return the column that contains the prompts, or "" if there is none.

        Raises:
            StudyError: It is not known which columns have the texts. A system may have copied its prompts.
        """
        rows = [record.row for record in self.records]
        are_texts_known = bool(columns) or not rows[0].keys().isdisjoint(TEXT)
        for key in [key for key in rows[0] if key not in {*columns, *TEXT}]:
            cells = [str(row.get(key)).strip() for row in rows]
            share = sum(cell in words for cell in cells) / len(cells)
            if are_texts_known and share >= 0.5:
                return key
            if share == 1:
                raise StudyError(
                    f"{self.name}: {key!r} has the words of the prompts. Rename it to 'prompt', or name all "
                    "columns of texts: --column NAME --column NAME"
                )
        return ""

    def _find_prompt_ids(
        self, key: str, values: Sequence[str], columns: Collection[tuple[str, Mapping[str, str]]]
    ) -> Mapping[str, str]:
        """Return the prompts' ids by the values of a column; an empty mapping if the values are no ids.

        A text may be for a prompt that is not among the prompts. Numbers may also measure something, or count
        the rows, so they are ids only under a heading such as `task_id`.

        Raises:
            StudyError: Only some values are in a column of the prompts. They may be ids, or correct answers.
        """
        is_called_id = simplify_heading(key).endswith("id")
        has_numbers = any(map(_is_number, values))
        if has_numbers and not is_called_id:
            return {}
        counts = Counter(values)
        for heading, ids in columns:
            if is_called_id and heading == key:
                return ids
            matches = sum(counts[value] for value in ids.keys() & counts.keys())
            if 2 * matches < len(values) or (has_numbers and heading):
                continue
            is_even = matches == len(values) and len({*counts.values()}) == 1
            if is_called_id or heading in {"", "id"} or is_even or ids.keys() <= counts.keys():
                return ids
            raise StudyError(
                f"{self.name}: {key!r} has some values of {heading!r} in the file of prompts. {_REMEDY}"
            )
        return {}

    def _refuse_other_order(self, columns: Mapping[str, Sequence[str]], prompts: Collection[Prompt]) -> None:
        """Refuse values or numbers of the prompts, unless each system's texts are in the prompts' order."""
        sequences = [list(ids) for _, ids in _find_columns_of_ids(prompts)]
        sequences += [list(map(str, range(first, first + len(prompts)))) for first in (0, 1)]
        digits = [list(map(_find_digits, sequence)) for sequence in sequences]
        by_numbers = {frozenset(numbers): numbers for numbers in reversed(digits) if "" not in numbers}
        for key, values in columns.items():
            shared = [_format_id(prompt.columns.get(key)) for prompt in prompts]
            numbers = list(map(_find_digits, values))
            for cells, sequence in ((values, shared), (numbers, by_numbers.get(frozenset(numbers), []))):
                times = len(cells) // max(1, len(sequence))
                orders = [sequence * times, [cell for cell in sequence for _ in range(times)]]
                if sorted(cells) != sorted(orders[0]):
                    continue
                if cells not in orders:
                    raise StudyError(
                        f"{self.name}: {key!r} has the prompts' values in another order. {_REMEDY}"
                    )
                break

    def read_texts(
        self,
        columns: Sequence[str] = (),
        *,
        prompts: Mapping[str, Prompt] | None = None,
        by_order: bool = False,
    ) -> Iterator[tuple[int, Generation]]:
        """Yield the texts, each with the position of its row. A prompt without an id gets the id "".

        Args:
            columns: The columns of texts that the user has named.
            prompts: Prompts by id, for records without a prompt or a reference.
            by_order: Whether texts without prompts and ids are matched to prompts by their order.

        Raises:
            StudyError: A row cannot be used. The message names row, value and remedy.
        """
        if columns:
            refuse_side_columns(set(self.records[0].row).difference(columns), (), self.name)
        columns = columns or find_text_columns(self.records, self.name)
        systems = "" if len(columns) > 1 else find_system_column(self.records)
        refuse_ambiguous_columns(self.records, columns, systems, self.name)
        if not by_order:
            refuse_unnamed_prompts(self.records, columns, systems, self.name)
        for position, record in enumerate(self.records, start=1):
            for column in columns or ("",):
                stem = str(record.row[systems]) if systems else self.stem
                name = column if len(columns) > 1 else stem
                text = Fields(record, column).read_generation(prompts, name)
                if len(columns) > 1 and text.strategy != column:  # the record names its strategy, too
                    text = replace(text, strategy=f"{text.strategy} {column}")
                if NOT_UTF8 in text.flaws and self.errors == "strict":
                    raise StudyError(f"{record.where}: a text is not UTF-8; {UTF8_REMEDY}")
                yield position, text


def _format_id(value: object) -> str:
    """Return an id as text. pandas writes 7 as 7.0 if another cell of the column is empty."""
    text = str(value)
    return re.sub(r"^(-?\d+)\.0$", r"\1", text) if text.endswith(".0") else text


def _find_columns_of_ids(prompts: Collection[Prompt]) -> list[tuple[str, dict[str, str]]]:
    """Return the columns with another value for each prompt: heading, value → id. The ids are under ""."""
    headings = dict.fromkeys(chain.from_iterable(prompt.columns for prompt in prompts))
    columns: list[tuple[str, list[object]]] = [("", [prompt.id for prompt in prompts])]
    columns += [(heading, [prompt.columns.get(heading) for prompt in prompts]) for heading in headings]
    ids = [
        (heading, {_format_id(cell): prompt.id for cell, prompt in zip(cells, prompts, strict=True)})
        for heading, cells in columns
    ]
    return [(heading, column) for heading, column in ids if len(column) == len(prompts)]


def _find_digits(text: str) -> str:
    """Return the digits of an id without zeros before them, such as `3` of `q003`."""
    digits = re.sub(r"\D+", "", text)
    return digits.lstrip("0") or digits[:1]


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    return re.fullmatch(r"[+-]?[\d.,]+", text) is not None


class Fields:
    """The values of one record, such as its prompt and its text. The keys may have several spellings.

    Attributes:
        flaws: The flaws of the values that were read so far, as in `Generation.flaws`.
    """

    def __init__(self, record: Record, column: str = "") -> None:
        self._where = record.where
        self._row = dict(record.row)
        self._column = column
        self.flaws = [FURTHER] if record.further else []

    def read_generation(self, prompts: Mapping[str, Prompt] | None, strategy: str) -> Generation:
        """Return the record's text with its prompt and other facts. An unknown `prompt_id` is ""."""
        key, texts = self._find_key_and_texts()
        prompt_id = self.read_string("prompt_id") or ""
        study_prompt = prompts.get(prompt_id) if prompts else None
        prompt = self.read_prompt() or (study_prompt.text if study_prompt else None)
        reference = self.read_string("reference") or (study_prompt.reference if study_prompt else None)
        if study_prompt is None and prompts is not None and None in {prompt, reference}:
            self.flaws.append("prompt unknown")
        text = "" if texts[0] is None else self._read_text(key, texts[0])
        if prompt and text.startswith(prompt):  # every metric would count the prompt
            self.flaws.append(ECHO)
        seconds = self._read_number("seconds", _AMOUNT)
        return Generation(
            prompt_id=prompt_id,
            dataset=self.read_string("dataset") or (study_prompt.dataset if study_prompt else "unnamed"),
            strategy=self._join_strategy_and_setting(self.read_string("strategy") or strategy),
            text=text,
            prompt=prompt,
            reference=reference,
            tokens=self._read_number("tokens", _COUNT),
            finish=self._read_finish_reason(),
            seconds=None if seconds is None else seconds / len(texts),
            batch=self._read_number("batch", _COUNT),
            device=self.read_string("device"),
            run=self._read_number("run", _COUNT) or 1,
            flaws=tuple(dict.fromkeys(self.flaws)),  # last, because reading a value may add a flaw
        )

    def _join_strategy_and_setting(self, strategy: str) -> str:
        """Return a strategy's name, followed by the record's setting if the record has one."""
        _, value = self._find_filled_key("setting")
        setting = strategy if value is None else str(value)
        # "top_p(p=0.9)" names its strategy, but "top_p=0.9" only begins with the name of a parameter.
        is_signature = setting.startswith(f"{strategy}(") and setting.endswith(")")
        name = setting if is_signature or setting == strategy else f"{strategy}({setting})"
        return " ".join(name.split())

    def read_prompt(self) -> str | None:
        """Return the record's prompt; None if there is none.

        Raises:
            StudyError: Parts of the prompt may be under several keys.
        """
        prompt = self.read_string("prompt")
        first, *others = [key for key in KEYS["prompt"] if self._row.get(key) not in (None, "")] or [""]
        for key in others:
            if first != "prompt" and str(self._row[key]) not in str(prompt):
                raise StudyError(
                    f"{self._where}: the prompt may be {first!r} and {key!r} together; write the whole "
                    "prompt under the key 'prompt'"
                )
        return prompt

    def read_string(self, name: str) -> str | None:
        """Return the value of a field as text. In ids and datasets, a number such as 1.0 becomes "1"."""
        key, value = self._find_filled_key(name)
        if value is None:
            return None
        is_label = name in {"id", "prompt_id", "dataset"}
        if is_label and type(value) in {int, float} and float(str(value)).is_integer():
            return f"{value:.0f}"
        text = self._read_text(key, value)
        return _format_id(text) if is_label else text

    def _find_filled_key(self, name: str) -> tuple[str, object]:
        """Return the first key of a field that has a value, and the value. An empty cell is no value."""
        for key in KEYS.get(name, (name,)):
            if (value := self._row.get(key)) is not None and value != "":
                return key, value
        return name, None

    def _read_finish_reason(self) -> Finish | None:
        """Return the reason why the text ended, if it is known."""
        key, value = self._find_filled_key("finish")
        # OpenAI's "stop" means that the model or a stop string ended the text.
        return "eos" if (key, value) == ("finish_reason", "stop") else _FINISHES.get(str(value))

    def _read_number(self, name: str, numbers: TypeAdapter[Number]) -> Number | None:
        """Return a number that is not negative, or the length of a list. Any other value is a flaw."""
        _, value = self._find_filled_key(name)
        if value is None:
            return None
        try:
            return numbers.validate_python(len(value) if isinstance(value, list) else value)
        except ValidationError:
            self.flaws.append(f"{name} not a number")
            return None

    def _find_key_and_texts(self) -> tuple[str, list[object]]:
        """Return the record's key for texts, and the texts under this key."""
        keys = (self._column,) if self._column else TEXT
        present = [key for key in keys if key in self._row]
        if not present:
            remedy = "rename the key of the text, or name it: --column NAME"
            if any(isinstance(value, list | Mapping) for value in self._row.values()):
                remedy = "write rows without nested values, as docs/formats.md shows"
            raise StudyError(
                f"{self._where}: has no {' or '.join(keys)}, only {', '.join(self._row):.300}; {remedy}"
            )
        filled = [key for key in present if self._row[key] not in (None, "")] or present
        key = filled[0]
        if others := [other for other in filled if self._row[other] != self._row[key]]:
            raise StudyError(
                f"{self._where}: the text may be under {key!r} or {others[0]!r}; say which: --column "
                f"{others[0]!r}"
            )
        texts = self._list_texts_under_key(key) or [None]
        if texts[0] is None:
            self.flaws.append("no text")
        if len(texts) > 1:
            self.flaws.append(FURTHER)
        return key, texts

    def _list_texts_under_key(self, key: str) -> list[object]:
        """Return the texts under a key. Several texts are in a list or in an object with numbers as keys."""
        value = self._row[key]
        if isinstance(value, list):
            return value
        if type(value) is int:  # an answer, such as 42
            return [str(value)]
        if key not in (self._column, *_OF_SEVERAL):
            return [value]
        if isinstance(value, str) and _NUMBERED.match(value):
            try:
                value = parse_cell(value)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                raise StudyError(
                    f"{self._where}: {key!r} begins like a JSON object and cannot be read: {value[:60]!r}; "
                    "write valid JSON"
                ) from None
        if isinstance(value, Mapping):
            self._row |= {"time_cost": value["time_cost"]} if "time_cost" in value else {}  # of all texts
            names = [name for name in value if str(name).isdecimal()] or value
            return [value[name] for name in names]
        return [value]

    def _read_text(self, key: str, value: object) -> str:
        """Return a value as a text. Remove the prompt if texts under this key include the prompt."""
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        if not isinstance(value, str):
            raise StudyError(
                f"{self._where}: {key!r} is {value!r:.60}; it must be a string; write one, or remove this key"
            )
        text = value if value.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
        if text != value:
            self.flaws.append(NOT_UTF8)
        return text.removeprefix(self.read_string("prompt") or "") if key in _WITH_PROMPT else text
