"""An extension of griffe, for zensical.toml: docstrings are plain text, and the site takes them for Markdown.

A docstring ends with its doctest, without a heading; Markdown would take `>>>` for a quotation, and the
indices of H(X)_t and x_<t for emphasis.
"""

from __future__ import annotations

import re

import griffe

_INDEX = re.compile(r"(?P<code>`[^`]*`)|(?<=\))_|_(?=[<{])")
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring's text with a fence around each doctest that stands at the left margin."""
    return _DOCTEST.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


def with_indices(text: str) -> str:
    """Return a docstring's text with those underscores escaped that Markdown would eat."""
    return _INDEX.sub(lambda match: match["code"] or r"\_", text)


class PlainDocstrings(griffe.Extension):
    """Rewrite the docstring of every object that is read."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Do so before it is parsed."""
        if obj.docstring:
            obj.docstring.value = fenced(with_indices(obj.docstring.value))
