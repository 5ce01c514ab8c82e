"""A report's page as HTML, Markdown and LaTeX: what is printed is escaped for the format, whatever it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from analysis.render import Table, to_html, to_latex, to_markdown
from guard_eval.escaping import Raw, clean, escape_html, escape_latex, escape_markdown

FORMATS = {
    "index.html": (escape_html, to_html),
    "report.md": (escape_markdown, to_markdown),
    "report.tex": (escape_latex, to_latex),
}
"""Per file: what every printed value passes through, and how a table is printed."""


def rendered(name: str, page: Any) -> str:  # noqa: ANN401  templates read what they need of it
    """Return the file `name` (of `FORMATS`) that shows `page`."""
    return _environment(name).get_template(f"{name}.j2").render(page=page)


@cache
def _environment(name: str) -> jinja2.Environment:
    """Return a template environment that escapes every value for its format unless it is `Raw`."""
    escape, table = FORMATS[name]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # noqa: S701  `finalize` escapes, for the formats Jinja does not know too
        finalize=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    if name == "report.tex":  # braces are LaTeX's own
        environment.block_start_string, environment.block_end_string = "<%", "%>"
        environment.variable_start_string, environment.variable_end_string = "<<", ">>"
        environment.comment_start_string, environment.comment_end_string = "<#", "#>"
    environment.filters["table"] = table
    environment.tests["table"] = lambda part: isinstance(part, Table)
    environment.filters["fence"] = _fence
    environment.filters["file"] = Raw  # figures' names are ours, and a path must not be escaped
    environment.filters["verbatim"] = _verbatim
    environment.filters["breakable"] = _breakable
    return environment


def _fence(text: str) -> Raw:
    """Return `text` as a Markdown code block whose fence is longer than any run of backticks in it."""
    body = clean(text).rstrip("\n")
    fence = "```"
    while fence in body:
        fence += "`"
    return Raw(f"{fence}text\n{body}\n{fence}")


def _verbatim(text: str) -> Raw:
    """Return `text` for LaTeX line by line, escaped: a verbatim block could be closed from inside."""
    lines = [escape_latex(line.replace("\t", "    ")).replace("  ", "~~") for line in clean(text).split("\n")]
    return Raw(
        "\\par\n".join(rf"\noindent\texttt{{{line}}}" if line.strip() else r"\noindent~" for line in lines)
    )


def _breakable(text: str) -> Raw:
    """Return a long word for LaTeX that may end a line after every eighth character."""
    parts = (text[start : start + 8] for start in range(0, len(text), 8))
    return Raw(r"\allowbreak{}".join(escape_latex(part) for part in parts))
