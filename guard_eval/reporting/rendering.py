"""Make pages and documents from templates. Every printed value is escaped for the format."""

from functools import cache, partial
from pathlib import Path

import jinja2

from guard_eval.reporting import words
from guard_eval.reporting.escaping import (
    Escaped,
    escape_html,
    escape_latex,
    escape_markdown,
    replace_unwritable_characters,
)
from guard_eval.reporting.tables import LONG_CELL, Table

_OWN = Path(__file__).with_name("templates")


def _to_one_line(value: object) -> str:
    return " ".join(str(value).splitlines())


_ESCAPES = {".html": escape_html, ".md": escape_markdown, ".tex": escape_latex, ".txt": _to_one_line}
"""The function that escapes a value, by file ending."""


def render(module: str, name: str, /, **values: object) -> str:
    """Fill a template with values. Each value is escaped for the format unless it is `Escaped`.

    A whole number gets commas between its thousands. A seed is printed as a string.

    Args:
        module: The `__file__` of a module. The folder `templates` beside it has the template.
        name: The name of the document, such as `page.html` for the template `page.html.j2`, which may extend
            or include this package's templates.
        values: The values for the template, by name.
    """
    environment = _make_jinja_environment(Path(module).with_name("templates"), Path(name).suffix)
    return environment.get_template(f"{name}.j2").render(values)


def render_lines(module: str, name: str, /, **values: object) -> tuple[str, ...]:
    """Return the sentences of a template such as `methods.txt.j2`, one for each line. See `render`."""
    return tuple(filter(None, render(module, name, **values).split("\n")))


def render_table(table: Table, ending: str, *, heading: bool = False, label: str = "") -> Escaped:
    """Return a table in the format of files with this ending: `.html`, `.md` or `.tex`.

    Args:
        table: The table.
        ending: The ending. LaTeX is a float with booktabs rules.
        heading: Whether the caption is the heading of a section.
        label: The label for references in LaTeX.
    """
    text = render(__file__, f"table{ending}", table=table, heading=heading, label=label)
    return Escaped(text.removesuffix("\n"))


@cache
def _make_jinja_environment(folder: Path, ending: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _OWN]),
        autoescape=False,  # noqa: S701  `finalize` escapes, for the formats Jinja does not know too
        finalize=lambda value: _ESCAPES[ending](words.separate_thousands(value)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    if ending == ".tex":  # LaTeX uses braces itself
        environment.block_start_string = "<%"
        environment.block_end_string = "%>"
        environment.variable_start_string = "<<"
        environment.variable_end_string = ">>"
        environment.comment_start_string = "<#"
        environment.comment_end_string = "#>"
    # a template can call every function of `words`
    environment.globals |= {name: word for name, word in vars(words).items() if callable(word)}
    environment.globals["LONG_CELL"] = LONG_CELL
    environment.filters["table"] = partial(render_table, ending=ending)
    environment.filters["fence"] = _make_markdown_code_block
    environment.filters["file"] = Escaped  # our code chooses figures' names, and a path must not be escaped
    return environment


def _make_markdown_code_block(text: str) -> Escaped:
    """Return `text` as a Markdown code block whose fence is longer than any run of backticks in it."""
    body = replace_unwritable_characters(text).rstrip("\n")
    fence = "```"
    while fence in body:
        fence += "`"
    return Escaped(f"{fence}text\n{body}\n{fence}")
