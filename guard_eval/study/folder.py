"""A study's folder: study.toml → a validated `Study`, its hash, and where its parts lie.

It is written before the data exist. Its hash is stored with the first verdict, and the report says where the
analysis departs from it.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from guard_eval.errors import StudyError
from guard_eval.records import Plan
from guard_eval.study.problems import explain, problems_of, read_toml
from guard_eval.study.settings import Settings

BUNDLED = "bundled"
"""The name of the small model that comes with the package."""

_LATER: Any = {"generation": {"runs": 1, "stop": []}, "pairs": {"run": 1, "best_of_runs": None}}
"""Settings that came later: where they are as usual, a study has the hash that it had before."""
_NO_INFLUENCE: Any = {
    "database": True,
    "publication": True,
    "judge": {"__all__": {"api_key_env", "timeout"}},
    "annotation": {"recruitment": {"codes", "completion_url", "prolific_study"}},
}
"""Settings that can change no result: a study may move, and a key or a code be changed, while it runs."""


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
        if folder.is_file() and folder.name == path.name:
            raise StudyError(f"{folder} is a study's settings; name their folder: {folder.parent}")
        if folder.is_file():
            raise StudyError(f"{str(folder)!r} is a file; name the folder of a study")
        if not folder.is_dir():
            raise StudyError(
                f"there is no folder {str(folder)!r}; make a study with: guard-eval new {folder}"
            )
        with suppress(PermissionError):  # named below
            if not path.exists():
                raise StudyError(
                    f"{str(folder)!r} is not a study: it has no study.toml; make one with: "
                    "guard-eval new NAME"
                )
        try:
            return cls(folder, Settings.read(read_toml(path), folder))
        except ValidationError as error:
            # what is wrong with a database's URL may be its password
            problems = problems_of(error, Settings, hidden=["database"])
            raise StudyError(explain(path, problems)) from error

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of the settings that can change a result, whatever their order and comments."""
        settings = self.settings.model_dump(mode="json", exclude=_NO_INFLUENCE)
        for table, usual in _LATER.items():
            for name, value in usual.items():
                if settings[table][name] == value:
                    del settings[table][name]
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
        """Return the folder of the metrics: tables, figures, and the score that models gave each text."""
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
        return str(Path(__file__).parents[1] / "demo" / "model")
    # Unlike `Path.expanduser`, it leaves the home of a stranger who does not exist as it is.
    path = folder / os.path.expanduser(name)  # noqa: PTH111
    if name and (path.is_dir() or name.startswith((".", "/", "~"))):
        return str(path.resolve())
    return name


def seen_from(folder: Path, model: str) -> str:
    """Return a model folder's path as study.toml needs it: seen from the study, if it was relative."""
    path = Path(os.path.expanduser(model))  # noqa: PTH111
    return model if not model or not path.is_dir() or path.is_absolute() else os.path.relpath(path, folder)
