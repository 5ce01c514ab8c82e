"""Read the files of a study's folder, which may be a stranger's: regular files inside it, and no others."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from guard_eval.errors import StudyError
from guard_eval.study.criteria_settings import SettingsContext, SettingsTable

LARGEST_TOML_BYTES = 2**20

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{64}}", re.ASCII)
"""A key of more than 64 parts, on which tomllib takes quadratic time."""


class StudyFile(SettingsTable):
    """A text file of the study's folder.

    Attributes:
        file: Its name in study.toml.
        text: Its text.
    """

    file: str
    text: str


def find_study_file(folder: Path, name: str) -> Path:
    """Return the path of a file in the study's folder, with all links followed.

    Raises:
        FileNotFoundError: There is no such file. The message is worded for the user.
        StudyError: The name leads outside the folder, or to something that is not a regular file.
    """
    try:
        path = (folder / name).resolve(strict=not Path(name).is_absolute())
        inside, regular = path.is_relative_to(folder.resolve()), path.is_file()
    except FileNotFoundError:
        raise FileNotFoundError(
            "there is no such file in the study's folder; write it, or remove the setting"
        ) from None
    except (OSError, RuntimeError, ValueError):  # a circle of links; a character that no name can have
        raise StudyError("this is no file's name; name a file in the study's folder") from None
    if not inside:
        raise StudyError("it is outside the study's folder; copy it there")
    if not regular:
        raise StudyError("it is no file; name a file in the study's folder")
    return path


def read_study_file(folder: Path, name: str, *, most: int) -> str:
    """Return the text of a file in the study's folder.

    Raises:
        StudyError: The file is elsewhere, missing, larger than `most` bytes, or not UTF-8.
    """
    try:
        return _read_text(find_study_file(folder, name), most)
    except FileNotFoundError as error:
        raise StudyError(str(error)) from None


def _read_text(path: Path, most: int) -> str:
    """Return the text of a file, without a byte order mark and with line feeds alone as line ends."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise StudyError("it is not a regular file; name another file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise StudyError(f"cannot read it: {error.strerror}; fix that, or name another file") from None
    if len(content) > most:
        raise StudyError(f"it is larger than {most:,} bytes; write less")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise StudyError(f"it is no text in UTF-8 (byte {error.start}); save it as UTF-8") from None


def study_file(most: int) -> BeforeValidator:
    """Return what reads the file that a setting names, of at most so many bytes."""

    def read(value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        if isinstance(info.context, SettingsContext):
            return StudyFile(file=value, text=read_study_file(info.context.folder, value, most=most))
        raise ValueError("a file is read with its study; without one, give StudyFile(file=…, text=…)")

    return BeforeValidator(read)


GoldFile = Annotated[StudyFile, study_file(most=2**22)]
"""Gold pairs, named in study.toml by their file."""

WordingFile = Annotated[StudyFile, study_file(most=2**18)]
"""A study's own wording, named in study.toml by its file."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, which may be a stranger's.

    Raises:
        StudyError: It cannot be read, is too large, is not a regular file, or is not TOML.
    """
    try:
        text = _read_text(path, LARGEST_TOML_BYTES)
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None
    return parse_toml(text, path)


def parse_toml(text: str, source: Path | str) -> dict[str, Any]:
    """Return the tables of a TOML text, in time that grows with its length.

    Args:
        text: The text.
        source: What the text is called in messages.

    Raises:
        StudyError: It is not TOML, or has keys, nesting or numbers without a sensible end.
    """
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise StudyError(f"{source}, line {line}: a key has more than 64 parts; shorten it")
    try:
        tables = tomllib.loads(text)
        _check_numbers(tables)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{source} is not valid TOML: {error}; fix that line") from None
    except (ValueError, RecursionError):
        raise StudyError(f"{source} has a number that is too long, or nests too deeply; shorten it") from None
    return tables


def _check_numbers(value: object) -> None:
    """Raise a `ValueError` for an integer beyond TOML's 64 bits, which cannot even be printed."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_numbers(part)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError
