"""The models that score texts, and a cache of the computed scores.

A stored value has a key: a hash of everything that can change the value, such as the model's revision, the
definition and the texts. So a stored value is never out of date. Each batch is committed, so a stopped run
loses at most one batch.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from guard_eval import progress
from guard_eval.errors import StudyError, get_first_line
from guard_eval.records import make_content_id, record
from guard_eval.reporting.writing import check_database_file
from guard_eval.study import Study
from guard_eval.study.settings import MetricSettings

if TYPE_CHECKING:  # metrics without models do not need torch
    from guard_eval.generation.engines.loading import LoadedModel, ModelKind

BATCH_TEXTS = 256
"""The number of texts whose values are saved in one transaction."""
TABLE = "CREATE TABLE scores (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID"

Value = Any
"""A value that a model computes: JSON, or an array of float32."""
ScoringInput = tuple[str, ...]
"""A text, or a text with its prompt or its reference."""

REVISION_CHARACTERS = 12
"""The number of characters of a model's revision that a signature shows."""


@dataclass(frozen=True)
class ScoringModel:
    """A model that scores texts. The name and revision are known before the model is loaded.

    Attributes:
        location: A folder or a Hub id.
        name: The model's name in the settings.
        device: The device that the model runs on, or `auto`.
        branch: A branch, tag or commit of the Hub.
        kind: The transformers class that loads the model.
    """

    location: str
    name: str
    device: str = "auto"
    branch: str = "main"
    kind: ModelKind = "AutoModelForCausalLM"

    @cached_property
    def revision(self) -> str:
        """Return the commit of the Hub, or the hash of the folder's files."""
        from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

        return ModelFiles.open(self.location, self.branch).revision

    @cached_property
    def dtype(self) -> str:
        """Return the number format: float32 on a CPU, bfloat16 on a GPU."""
        from guard_eval.generation.engines.loading import predict_device_kind  # noqa: PLC0415

        return "float32" if predict_device_kind(self.device) == "cpu" else "bfloat16"

    @property
    def signature(self) -> str:
        """Return the part of a score's signature that describes the model."""
        revision = self.revision.removeprefix("sha256:")[:REVISION_CHARACTERS]
        return f"model:{self.name}|revision:{revision}|{self.dtype}"

    @property
    def identity(self) -> str:
        """Return the model's part of a cache key, which changes with the model's files and number format."""
        name = "" if self.revision.startswith("sha256:") else self.location
        return f"{name}@{self.revision}:{self.dtype}"

    @cached_property
    def loaded_model(self) -> LoadedModel:
        """Load the model once. Use all threads, because scoring reads texts in large batches."""
        import torch  # noqa: PLC0415

        from guard_eval.generation.engines.loading import load_pretrained  # noqa: PLC0415

        threads = torch.get_num_threads()
        try:
            return load_pretrained(
                self.location,
                name=self.name,
                revision=self.branch,
                dtype=self.dtype,
                device=self.device,
                kind=self.kind,
            )
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class ScoringModels:
    """The scoring models, by their names in the settings.

    Attributes:
        locate: A function that returns the folder or Hub id of a name.
        device: The device that the models run on, or `auto`.
        revisions: The branch, tag or commit of models, by name. Other models use `main`.
    """

    locate: Callable[[str], str]
    device: str = "auto"
    revisions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_study(cls, study: Study) -> ScoringModels:
        """Return a study's scoring models."""
        revisions = {model.name: model.revision for model in study.local_models}
        return cls(study.locate_model, device=study.settings.model.single_device, revisions=revisions)

    def open(self, name: str, *, kind: ModelKind = "AutoModelForCausalLM") -> ScoringModel:
        """Return the scoring model with this name. The model's weights are not loaded yet."""
        return ScoringModel(self.locate(name), name, self.device, self.revisions.get(name, "main"), kind)


class ScoreCache:
    """A cache of values by key, in an SQLite file or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, or create it if it does not exist.

        Raises:
            StudyError: The file cannot be opened.
        """
        self._path = path
        with self._name_file_in_errors(), ExitStack() as stack:
            if path is not None:
                check_database_file(path)
                path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path or ":memory:", timeout=60)
            self._connection = stack.enter_context(closing(connection))
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(TABLE.replace("TABLE", "TABLE IF NOT EXISTS"))
            statements = self._connection.execute("SELECT sql FROM sqlite_master").fetchall()
            if statements != [(TABLE,)]:  # a view or a trigger of a stranger could run for ever
                raise ValueError("another program has changed its tables")
            stack.pop_all()  # an opened cache closes its file later

    def read_values(self, keys: Iterable[str]) -> dict[str, Value]:
        """Return the stored values, by key."""
        query = "SELECT key, value FROM scores WHERE key IN (SELECT value FROM json_each(?))"
        with self._name_file_in_errors():
            rows = self._connection.execute(query, [json.dumps([*keys])])
            return {key: _decode_value(value) for key, value in rows}

    def save_values(self, values: Mapping[str, Value]) -> None:
        """Save values by key. When this function returns, killing the process does not lose the values."""
        with self._name_file_in_errors(), self._connection:
            rows = [(key, _encode_value(value)) for key, value in values.items()]
            self._connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _name_file_in_errors(self) -> Iterator[None]:
        try:
            yield
        except StudyError:
            raise
        except (OSError, sqlite3.Error, TypeError, ValueError) as error:
            remedy = "Fix this problem, or remove the file, so that all scores are computed again"
            problem = f"the file of stored scores {self._path} cannot be used: {error}"
            raise StudyError(f"{problem}. {remedy}") from error


def _encode_value(value: Value) -> bytes | str:
    return value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value)


def _decode_value(value: bytes | str) -> Value:
    return np.frombuffer(value, dtype=np.float32) if isinstance(value, bytes) else json.loads(value)


@record
class MetricTools:
    """The settings, models and stored values that metrics use.

    Attributes:
        settings: The settings of the metrics.
        models: The scoring models, which only some metrics use.
        cache: The values that models have already computed.
    """

    settings: MetricSettings
    models: ScoringModels
    cache: ScoreCache

    def read_or_compute_values(
        self,
        definition: Sequence[object],
        model: ScoringModel,
        items: Iterable[ScoringInput],
        compute: Callable[..., Iterable[Value]],
    ) -> dict[ScoringInput, Value]:
        """Return a model's value for each item. Stored values are not computed again.

        Args:
            definition: The name of the value, which the progress bar shows, and the settings.
            model: The model, which is loaded only if an item has no stored value.
            items: The texts. Texts of about the same length are computed together.
            compute: A function of the model, the tokenizer and a batch of items that returns their values, as
                JSON or arrays of float32.
        """
        ordered = sorted(set(items), key=lambda item: (sum(map(len, item)), item))
        name, *settings = definition
        keys = {item: make_content_id(name, 2, model.identity, *settings, *item) for item in ordered}
        stored = self.cache.read_values(keys.values())
        missing = [item for item in ordered if keys[item] not in stored]
        with progress.show_task(str(name), total=len(keys), unit="texts") as advance:
            advance(len(keys) - len(missing))
            for start in range(0, len(missing), BATCH_TEXTS):
                batch = missing[start : start + BATCH_TEXTS]
                loaded = model.loaded_model
                try:
                    computed = compute(loaded.model, loaded.tokenizer, batch)
                except StudyError:
                    raise
                except Exception as error:  # a model or tokenizer may raise any exception
                    problem = f"{type(error).__name__}: {get_first_line(error)}"
                    raise StudyError(
                        f"the model {model.name!r} cannot score these texts ({problem}); name another model"
                    ) from error
                values = {keys[item]: value for item, value in zip(batch, computed, strict=True)}
                self.cache.save_values(values)
                stored |= values
                advance(len(batch))
        return {item: stored[key] for item, key in keys.items()}
