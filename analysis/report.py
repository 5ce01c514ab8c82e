"""Verdicts → a folder: a page that answers the question, the same in Markdown and LaTeX, and CSV."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
import pandas as pd

from analysis import tables
from analysis.agreement import AgreementRow, agreement_rows
from analysis.answer import answer
from analysis.audits import Finding, audit
from analysis.bias import PositionRow, position_rows
from analysis.columns import AGREEMENT, AUDITS, POSITION, RATER, SENSITIVITY, SHARES, frame_table, full_table
from analysis.context import Context, Example
from analysis.figures import Drawing, bars, forest, standalone
from analysis.method_notes import limitations, methods
from analysis.raters import RaterRow, rater_rows
from analysis.render import Table, to_csv, to_html, to_latex, to_markdown
from analysis.sensitivity import SensitivityRow, sensitivity_rows
from analysis.shares import ShareRow, share_rows
from analysis.tidy import orient, validate
from analysis.words import KIND_PLACE, RATERS, title
from guard_eval.errors import StudyError
from guard_eval.escaping import Raw, clean, escape_html, escape_latex, escape_markdown

__all__ = ["Context", "Example", "Report", "write_report"]

OPTIONAL_CSV = ("position", "audits", "metrics")
"""Tables that not every report has."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written.

    Attributes:
        paths: Every file, index.html first.
        summary: The paragraph that answers the question.
    """

    paths: tuple[Path, ...]
    summary: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An example with what raters said of it."""

    example: Example
    verdicts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result rows that everything in a report is made of."""

    shares: tuple[ShareRow, ...]
    agreement: tuple[AgreementRow, ...]
    raters: tuple[RaterRow, ...]
    sensitivity: tuple[SensitivityRow, ...]
    position: tuple[PositionRow, ...]
    audits: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything the templates print."""

    context: Context
    summary: str
    simulated: bool
    share_note: str
    shares: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    agreement: Table
    raters: Table
    sensitivity: Table
    position: Table | None
    audits: Table | None
    metrics: Table | None
    examples: tuple[Shown, ...]
    methods: tuple[str, ...]
    limits: tuple[str, ...]


def write_report(verdicts: pd.DataFrame, folder: Path, context: Context) -> Report:
    """Write index.html, report.md, report.tex, figures/ and csv/; the same input gives the same bytes.

    Args:
        verdicts: A tidy table of verdicts, of any origin.
        folder: Made where missing; files of an earlier report there are replaced.
        context: What else there is to know of the study.

    Raises:
        StudyError: The verdicts are not a valid table.
    """
    frame = orient(validate(verdicts), context.planned)
    found = Found(
        shares=share_rows(frame, planned=context.planned, alpha=context.alpha),
        agreement=agreement_rows(frame, alpha=context.alpha),
        raters=rater_rows(frame, alpha=context.alpha),
        sensitivity=sensitivity_rows(frame, alpha=context.alpha),
        position=position_rows(frame, alpha=context.alpha),
        audits=audit(frame),
    )
    page = _page(frame, found, context)
    files: dict[str, str | bytes] = {
        name: _environment(name).get_template(f"{name}.j2").render(page=page)
        for name in ("index.html", "report.md", "report.tex")
    }
    for drawing in page.drawings:
        files[f"figures/{drawing.name}.svg"] = standalone(drawing)
        files[f"figures/{drawing.name}.pdf"] = drawing.pdf
    for name, table in _csv_tables(frame, found, context, simulated=page.simulated).items():
        files[f"csv/{name}.csv"] = to_csv(table)
    return Report(paths=_write(folder, files), summary=page.summary)


def _page(frame: pd.DataFrame, found: Found, context: Context) -> Page:
    rows = found.shares
    kinds = [kind for kind in RATERS if any(row.rater_kind == kind for row in rows)]
    several = len({(row.method_a, row.method_b) for row in rows}) > 1
    shares = (
        tables.share_table(tuple(row for row in rows if row.rater_kind == kind), name_methods=several)
        for kind in kinds
    )
    return Page(
        context=context,
        summary=answer(rows, alpha=context.alpha, exploratory=bool(context.why_exploratory)),
        simulated="simulated" in kinds,
        share_note=tables.TESTS_NOTE,
        shares=tuple(shares),
        drawings=_drawings(rows),
        agreement=tables.agreement_table(found.agreement, name_methods=several),
        raters=tables.rater_table(found.raters),
        sensitivity=tables.sensitivity_table(found.sensitivity, name_methods=several),
        position=tables.position_table(found.position) if found.position else None,
        audits=tables.audit_table(found.audits) if found.audits else None,
        metrics=None
        if context.metrics is None
        else tables.metrics_table(context.metrics, context.metrics_notes),
        examples=tuple(Shown(example=one, verdicts=_said_of(one, frame)) for one in context.examples),
        methods=methods(rows, context),
        limits=limitations(rows, found.agreement, found.position, context),
    )


def _drawings(rows: tuple[ShareRow, ...]) -> tuple[Drawing, ...]:
    groups: dict[tuple[str, str, str], list[ShareRow]] = {}
    for row in rows:
        groups.setdefault((row.rater_kind, row.method_a, row.method_b), []).append(row)
    drawn = []
    for number, members in enumerate(groups.values(), start=1):
        drawn += [forest(members, name=f"shares-{number}"), bars(members, name=f"verdicts-{number}")]
    return tuple(drawn)


def _said_of(example: Example, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return, per kind of rater and criterion, how many verdicts each continuation of the example got."""
    methods_of = {example.method_a, example.method_b}
    mine = frame[
        (frame["pair_id"] == example.pair_id)
        & frame["method_a"].isin(methods_of)
        & frame["method_b"].isin(methods_of)
    ]
    said = []
    cells = {
        (str(kind), str(criterion)): cell
        for (kind, criterion), cell in mine.groupby(["rater_kind", "criterion"])
    }
    for (kind, criterion), cell in sorted(
        cells.items(), key=lambda item: (KIND_PLACE[item[0][0]], item[0][1])
    ):
        counts = cell["verdict"].value_counts()
        a, b = int(counts.get(example.method_a, 0)), int(counts.get(example.method_b, 0))
        text = f"{example.method_a} {a} · tie {len(cell) - a - b} · {example.method_b} {b}"
        said.append(f"{title(criterion)} ({RATERS[kind]}): {text}")
    return tuple(said)


def _csv_tables(frame: pd.DataFrame, found: Found, context: Context, *, simulated: bool) -> dict[str, Table]:
    out = {
        "win_shares": full_table(SHARES, found.shares),
        "agreement": full_table(AGREEMENT, found.agreement),
        "raters": full_table(RATER, found.raters),
        "sensitivity": full_table(SENSITIVITY, found.sensitivity),
        "verdicts": frame_table(frame, simulated=frame["rater_kind"] == "simulated"),
    }
    if found.position:
        out["position"] = full_table(POSITION, found.position)
    if found.audits:
        out["audits"] = full_table({"simulated": lambda _: simulated, **AUDITS}, found.audits)
    if context.metrics is not None:
        out["metrics"] = frame_table(context.metrics, simulated=simulated)
    return out


_FORMATS = {
    "index.html": (escape_html, to_html),
    "report.md": (escape_markdown, to_markdown),
    "report.tex": (escape_latex, to_latex),
}
"""Per file: what every printed value passes through, and how a table is printed."""


@cache
def _environment(name: str) -> jinja2.Environment:
    """Return a template environment that escapes every value for its format unless it is `Raw`."""
    escape, table = _FORMATS[name]
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


def _write(folder: Path, files: dict[str, str | bytes]) -> tuple[Path, ...]:
    """Write the files and remove what an earlier report left that this one does not have."""
    try:
        for part in ("csv", "figures"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        for old in (*(folder / "csv" / f"{name}.csv" for name in OPTIONAL_CSV), *_old_figures(folder)):
            old.unlink(missing_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    except OSError as error:
        raise StudyError(
            f"cannot write the report to {folder}: {error.strerror}; name another folder"
        ) from error
    return tuple(folder / name for name in files)


def _old_figures(folder: Path) -> list[Path]:
    return [
        path
        for kind in ("shares", "verdicts")
        for path in sorted((folder / "figures").glob(f"{kind}-[0-9]*"))
    ]
