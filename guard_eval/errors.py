"""Errors that a user can fix. Each message names the object, the value and the remedy."""

import difflib
import json
import re
import shlex
from importlib import metadata
from urllib.parse import unquote

_PASSWORD = re.compile(r"(?i)(://(?!\[)[^\s/:'\"]*:)[^\s'\"]*(?=@)|(password=)[^\s&'\"]+")


class StudyError(ValueError):
    """An error that the user can fix. Passwords in URLs are removed from its message."""

    def __init__(self, message: str) -> None:
        super().__init__(_PASSWORD.sub(lambda match: f"{match[1] or match[2]}***", message))


class MissingExtraError(StudyError):
    """The error that an optional part of the toolkit is not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(
            f"this command needs the package {package!r}, which is not installed; run: pip install "
            f"{_make_pip_argument(extra)}"
        )


def _make_pip_argument(extra: str) -> str:
    """Return pip's argument for this package with an extra, from the package's folder, wheel or index."""
    # A source folder also has metadata, but these do not say where the package was installed from.
    installations = metadata.distributions(name="guard-eval")
    urls = (installation.read_text("direct_url.json") for installation in installations)
    source = json.loads(next(filter(None, urls), "{}"))
    url = source.get("url", "")
    if source.get("dir_info", {}).get("editable"):
        folder = unquote(url).removeprefix("file://")
        return "-e " + shlex.quote(f"{folder}[{extra}]")
    return shlex.quote(f"guard-eval[{extra}] @ {url}" if url else f"guard-eval[{extra}]")


def suggest_nearest_word(word: str, options: list[str]) -> str:
    """Return a suggestion for an unknown word: the nearest known word, or all known words."""
    if near := difflib.get_close_matches(word, options, n=1):
        return f"did you mean {near[0]!r}?"
    return f"choose from: {', '.join(options)}" if options else "it takes none"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or plural.

    >>> format_count(1, "text"), format_count(1200, "text")
    ('1 text', '1,200 texts')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def get_first_line(error: Exception) -> str:
    """Return the first line of an error's message, without a full stop; for pydantic, its first problem."""
    from pydantic_core import ValidationError  # noqa: PLC0415 (commands without an error start without it)

    if isinstance(error, ValidationError):
        problem = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")
