"""Make pages and documents from templates. Every printed value is escaped for the format."""

from functools import cache
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
from guard_eval.reporting.tables import to_html, to_latex, to_markdown

_OWN = Path(__file__).parent / "templates"


def _to_one_line(value: object) -> str:
    return " ".join(str(value).splitlines())


_FORMATS = {
    ".html": (escape_html, to_html),
    ".md": (escape_markdown, to_markdown),
    ".tex": (escape_latex, to_latex),
    ".txt": (_to_one_line, to_markdown),
}
"""The function that escapes a value and the function that prints a table, by file ending."""


def render(template: Path, **values: object) -> str:
    """Fill a template with values. Each value is escaped for the format unless it is `Escaped`.

    Args:
        template: A file such as `page.html.j2`; it may extend or include this package's templates.
        values: The values for the template, by name.
    """
    return (
        _make_jinja_environment(template.parent, Path(template.stem).suffix)
        .get_template(template.name)
        .render(values)
    )


def render_template_lines(template: Path, **values: object) -> tuple[str, ...]:
    """Return the sentences of a template such as `methods.txt.j2`, one for each line."""
    return tuple(filter(None, render(template, **values).split("\n")))


@cache
def _make_jinja_environment(folder: Path, ending: str) -> jinja2.Environment:
    escape, table = _FORMATS[ending]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _OWN]),
        autoescape=False,  # noqa: S701  `finalize` escapes, for the formats Jinja does not know too
        finalize=escape,
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
    environment.filters["table"] = table
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
