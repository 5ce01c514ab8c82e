"""A comparison as files: CSV with every figure, Markdown, LaTeX, and a page in the paper's layout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from guard_eval.cli.replication.compare import MARKS, MEANINGS, Block, Cell, Comparison
from guard_eval.cli.replication.figures import Figure
from guard_eval.reporting.escaping import NOTHING, Escaped, csv_text, escape_html, escape_markdown
from guard_eval.reporting.escaping import Cell as Value
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table, to_markdown
from guard_eval.reporting.writing import write_whole

_FIGURE = tuple(field.name for field in fields(Figure))
_PAGE, _DOCUMENT = (Path(__file__).with_name(f"replication{ending}.j2") for ending in (".html", ".tex"))
CELL = "In a cell: ours, its 95 % interval in brackets, and below it the paper's."


def write_pages(comparison: Comparison, folder: Path, *, name: str) -> Path:
    """Write `replication-NAME.csv`, `.md`, `.tex` and `.html` into `folder`; return the page.

    Raises:
        StudyError: A file cannot be written.
    """
    tables = [as_table(block) for block in comparison.blocks]
    notes = [*other_setting(comparison), *comparison.remarks, legend(comparison)]
    title = f"{comparison.label}: {comparison.title}"
    return _write(
        folder / f"replication-{name}.html",
        csv=csv_text([(*_FIGURE, *OWN), *map(_line, comparison.cells)]),
        title=title,
        notes=notes,
        tables=tables,
        page_notes=[*notes, CELL],
        page_tables=[_page_table(group) for group in side_by_side(comparison.blocks)],
    )


def write_texts(
    rows: Sequence[tuple[str, str, str]],
    page: Path,
    *,
    title: str,
    notes: Sequence[str],
    figure: Path | None = None,
) -> Path:
    """Write texts (name, the paper's, ours) in the same formats as tables; return the page.

    Args:
        rows: The texts.
        page: The page's file.
        title: Its heading.
        notes: What stands before the texts.
        figure: An SVG file that becomes part of the page.

    Raises:
        StudyError: A file cannot be written.
    """
    table = Table(columns=("", "paper", "ours"), rows=tuple(rows), caption="Paper and ours", text_columns=3)
    return _write(
        page,
        csv=csv_text([("text", "paper", "ours"), *rows]),
        title=title,
        notes=notes,
        tables=[table],
        figure=figure,
    )


def _write(
    path: Path,
    *,
    csv: str,
    title: str,
    notes: Sequence[str],
    tables: Sequence[Table],
    page_notes: Sequence[str] | None = None,
    page_tables: Sequence[Table] | None = None,
    figure: Path | None = None,
) -> Path:
    """Write all formats; the page may have notes and tables of its own."""
    markdown = [f"# {escape_markdown(title)}", *map(escape_markdown, notes), *map(to_markdown, tables)]
    page = render(_PAGE, title=title, notes=page_notes or notes, tables=page_tables or tables, figure=figure)
    for suffix, text in (
        (".csv", csv),
        (".md", "\n\n".join(filter(None, markdown)) + "\n"),
        (".tex", render(_DOCUMENT, title=title, notes=notes, tables=tables)),
        (".html", page),
    ):
        write_whole(path.with_suffix(suffix), text.encode(), make_folder=True)
    return path


OWN = ("ours", "low", "high", "n", "state")


def _line(cell: Cell) -> list[Value]:
    ours = cell.ours
    mine = (None, None, None, None) if ours is None else (ours.value, ours.low, ours.high, ours.n)
    printed = {name: getattr(cell.figure, name) for name in _FIGURE}
    if cell.figure.value not in {"", "yes", "no"}:
        printed["value"] = cell.figure.number  # as a number: a spreadsheet would take "-0.78" for a formula
    return [*printed.values(), *mine, cell.state]


def other_setting(comparison: Comparison) -> list[str]:
    """Return, where the setting is not the paper's, the sentence that says so."""
    if not comparison.departures:
        return []
    return [f"OTHER SETTING: {'; '.join(comparison.departures)}. A difference says nothing of the paper."]


def legend(comparison: Comparison) -> str:
    """Return what the marks mean that occur, and how many of the paper's figures lie in our intervals."""
    states = [cell.state for cell in comparison.cells]
    used = dict.fromkeys(MARKS[state] for state in states if state in MARKS)
    tested = [cell for cell in comparison.cells if cell.state in {"inside", "above", "below"}]
    within = sum(cell.state == "inside" for cell in tested)
    equal = sum(cell.equal for cell in tested)
    count = (
        f"{within} of {len(tested)} of the paper's figures lie within our intervals, "
        f"and {equal} are the same to the last digit"
        if tested
        else ""
    )
    return ". ".join(filter(None, (count, "; ".join(f"{mark} {MEANINGS[mark]}" for mark in used))))


def as_table(block: Block) -> Table:
    """Return a block as a table: for each column what the paper prints, and ours with its interval."""
    if block.only_ours:
        heads = list(block.columns)
        rows = [(name, *(_two(cell)[1] for cell in cells)) for name, cells in block.rows]
    else:
        heads = [head for name in block.columns for head in (f"{name}, paper", "ours")]
        rows = [(name, *itertools.chain.from_iterable(map(_two, cells))) for name, cells in block.rows]
    return Table(columns=("", *heads), rows=tuple(rows), caption=caption(block) or "Paper and ours")


def caption(block: Block) -> str:
    """Return a block's heading, which says where the paper has nothing of the kind."""
    return f"{block.title}: not in the paper, ours alone" if block.only_ours else block.title


def _two(cell: Cell | None) -> tuple[str, str]:
    if cell is None:
        return NOTHING, NOTHING
    return cell.paper, " ".join(filter(None, (cell.shown, cell.mark, cell.interval)))


def side_by_side(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return blocks in groups that have the same rows and stand beside each other, as the paper sets them."""
    return [
        list(group)
        for _, group in itertools.groupby(
            blocks, key=lambda one: (one.block, tuple(name for name, _ in one.rows))
        )
    ]


def _page_table(blocks: Sequence[Block]) -> Table:
    """Return blocks as one table in the paper's layout, ours above the paper's in each cell."""
    return Table(
        columns=("", *(name for one in blocks for name in one.columns)),
        rows=tuple(
            (name, *(_page_cell(cell) for one in blocks for cell in one.rows[place][1]))
            for place, (name, _) in enumerate(blocks[0].rows)
        ),
        caption=blocks[0].block or "Paper and ours",
        groups=tuple((one.group, len(one.columns)) for one in blocks),
    )


def _page_cell(cell: Cell | None) -> Escaped:
    if cell is None:
        return Escaped("")
    paper = escape_html(cell.paper)
    paper = f"<b>{paper}</b>" if cell.figure.mark == "bold" else paper
    interval = f" <small>{escape_html(cell.interval)}</small>" if cell.interval else ""
    both = f"{escape_html(cell.shown)}{escape_html(cell.mark)}{interval}<br><small>{paper}</small>"
    apart = cell.state in {"above", "below", "differs"}
    return Escaped(f'<span class="apart">{both}</span>' if apart else both)
