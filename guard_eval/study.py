"""A study's folder: study.toml → a validated `Study`, its hash, and where its parts lie.

It is written before the data exist. Its hash is stored with the first verdict, and the report says where the
analysis departs from it.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from guard_eval.errors import StudyError
from guard_eval.judge_settings import as_hashed
from guard_eval.settings import Settings, explain
from guard_eval.store import Plan

BUNDLED = "bundled"
"""The name of the small model that comes with the package."""

_YOUNGER = (
    ("model", "device_map"),
    ("model", "amateur"),
    ("model", "amateur_revision"),
    ("generation", "chat"),
    ("generation", "compile"),
    ("analysis", "sequential"),
    ("annotation", "pairs_per_rater"),
    ("annotation", "gold_every"),
    ("annotation", "repeats"),
    ("annotation", "language"),
    ("annotation", "wording"),
    ("annotation", "pages"),
    ("annotation", "recruitment"),
)
_BATCH_SIZE_ONCE = 16  # the default before there was `auto`; neither changes a text


def _default(table: str, key: str) -> object:
    kind: Any = Settings.model_fields[table].annotation
    default = kind.model_fields[key].get_default(call_default_factory=True)
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else default


@dataclass(frozen=True)
class Study:
    """A study's folder and its validated settings."""

    folder: Path
    settings: Settings

    @classmethod
    def open(cls, folder: Path) -> Study:
        """Read `folder`/study.toml.

        Raises:
            StudyError: There is none, it is no TOML, or settings are wrong; then all of them are named.
        """
        path = folder / "study.toml"
        if not folder.is_dir():
            raise StudyError(
                f"there is no folder {str(folder)!r}; make a study with: guard-eval new {folder}"
            )
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise StudyError(
                f"{str(folder)!r} is not a study: it has no study.toml; make one with: guard-eval new NAME"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"cannot read {path}: {error}") from error
        try:
            return cls(folder, Settings.model_validate(tomllib.loads(text)))
        except tomllib.TOMLDecodeError as error:
            raise StudyError(f"{path} is not valid TOML: {error}; mend that line") from error
        except ValidationError as error:
            raise StudyError(explain(path, error)) from error

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of the settings: comments, order and spacing do not count.

        Nor does where the database lies, for a study may move while it runs, nor a younger setting that is
        left at its default, so that a study keeps the hash it was given.
        """
        settings = self.settings.model_dump(mode="json") | {"database": None}
        for table, key in _YOUNGER:
            if settings[table][key] == _default(table, key):
                del settings[table][key]
        metrics = settings["metrics"]
        departures = {key for key in metrics if metrics[key] != _default("metrics", key)}
        settings["metrics"] = {key: metrics[key] for key in departures}
        settings["metrics"].setdefault("coherence_model", None)  # which was the default once
        if settings["generation"]["batch_size"] == "auto":
            settings["generation"]["batch_size"] = _BATCH_SIZE_ONCE
        settings["judge"] = [as_hashed(judge) for judge in settings["judge"]]
        canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def prompts_path(self) -> Path:
        """Return where the prompts lie."""
        return self.folder / Path(self.settings.prompts.file).expanduser()

    @property
    def continuations(self) -> Path:
        """Return the folder of continuation files, one per strategy."""
        return self.folder / "continuations"

    @property
    def metrics(self) -> Path:
        """Return the folder of the metrics: tables, figures, and what models said of each text."""
        return self.folder / "metrics"

    @property
    def report(self) -> Path:
        """Return the folder of the report."""
        return self.folder / "report"

    @property
    def plan(self) -> Plan:
        """Return how pairs are handed to people, and to simulated raters in their place."""
        asked = self.settings.annotation
        return Plan(
            seed=self.settings.seed,
            slots=asked.raters_per_pair,
            lease=timedelta(minutes=asked.lease_minutes),
            quota=asked.pairs_per_rater,
            gold_every=asked.gold_every,
            repeats=asked.repeats,
        )

    @property
    def database(self) -> str:
        """Return the database's URL: the study's own file unless study.toml names a server."""
        return self.settings.database or f"sqlite:///{(self.folder / 'study.db').resolve()}"

    def locate_model(self, name: str) -> str:
        """Return what to load for a model's name: a path, seen from the study, or a Hugging Face id."""
        return locate_model(name, self.folder)


def locate_model(name: str, folder: Path) -> str:
    """Return what to load for a model's name: a path, seen from `folder`, or a Hugging Face id."""
    if name == BUNDLED:
        return str(Path(__file__).parent / "demo" / "model")
    path = folder / Path(name).expanduser()
    if path.is_dir() or name.startswith((".", "/", "~")):
        return str(path.resolve())
    return name
