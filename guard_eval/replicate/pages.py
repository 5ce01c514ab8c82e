"""A comparison as files: CSV with every figure, Markdown, LaTeX, and a page in the paper's layout."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from analysis.render import Table, to_latex, to_markdown
from guard_eval.escaping import NOTHING, csv_text, escape_html, escape_latex, escape_markdown
from guard_eval.escaping import Cell as Value
from guard_eval.replicate.compare import MARKS, MEANINGS, Block, Cell, Comparison
from guard_eval.replicate.figures import Figure
from guard_eval.writing import write_whole

_FIGURE = tuple(field.name for field in fields(Figure))
_STYLE = """
:root { color-scheme: light dark; --quiet: #5d6268; --rule: #dcdcd6; --apart: #a3440c; }
@media (prefers-color-scheme: dark) { :root { --quiet: #a2a7ad; --rule: #34383d; --apart: #f0a36b; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1.25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem; margin: 1rem 0; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: top; white-space: nowrap; }
th { font-weight: 400; }
th:first-child { text-align: left; }
thead th { color: var(--quiet); } th.over { text-align: center; border-bottom: 1px solid var(--rule); }
img { max-width: 100%; background: #fff; } tbody tr { border-top: 1px solid var(--rule); }
small { color: var(--quiet); } .apart { color: var(--apart); }
td.text, th.text { white-space: normal; text-align: left; min-width: 14rem; }
"""
_PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{lmodern,textcomp,amsmath,amssymb,array,booktabs,graphicx}
\usepackage[margin=2.4cm]{geometry}
\newsavebox{\tablebox}
\newcommand{\fitwidth}[1]{\sbox{\tablebox}{#1}\ifdim\wd\tablebox>\linewidth\resizebox{\linewidth}{!}{\usebox{\tablebox}}\else\usebox{\tablebox}\fi}
\begin{document}
"""
CELL = "In a cell: ours, its 95 % interval in brackets, and below it the paper's."


def write_pages(comparison: Comparison, folder: Path, *, name: str) -> Path:
    """Write `replication-NAME.csv`, `.md`, `.tex` and `.html` into `folder`; return the page.

    Raises:
        StudyError: A file cannot be written.
    """
    tables = [as_table(block) for block in comparison.blocks]
    said = [*_warnings(comparison), legend(comparison)]
    title = f"{comparison.label}: {comparison.title}"
    return _write(
        folder / f"replication-{name}.html",
        csv=csv_text([(*_FIGURE, *OWN), *map(_line, comparison.cells)]),
        page=_html(comparison, title, said),
        title=title,
        said=said,
        tables=tables,
    )


def write_texts(
    rows: Sequence[tuple[str, str, str]],
    page: Path,
    *,
    title: str,
    said: Sequence[str],
    figure: Path | None = None,
) -> Path:
    """Write texts (name, the paper's, ours) in the same formats as tables; return the page.

    Args:
        rows: The texts.
        page: The page's file.
        title: Its heading.
        said: What stands before the texts.
        figure: An SVG file that becomes part of the page.

    Raises:
        StudyError: A file cannot be written.
    """
    heads = ("", "paper", "ours")
    table = Table(columns=heads, rows=tuple(rows), caption="Paper and ours", text_columns=3)
    cells = "\n".join(
        f'<tr><th scope="row">{escape_html(name)}</th>'
        + "".join(f'<td class="text" dir="auto">{escape_html(text)}</td>' for text in texts)
        + "</tr>"
        for name, *texts in rows
    )
    head = "".join(f'<th class="text" scope="col">{name}</th>' for name in heads)
    body = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{cells}\n</tbody></table></div>'
    )
    drawing = [] if figure is None else [f'<img alt="{escape_html(title)}" src="{_embedded(figure)}">']
    return _write(
        page,
        csv=csv_text([("text", "paper", "ours"), *rows]),
        page=html_page(title, [*(f"<p>{escape_html(line)}</p>" for line in said), body, *drawing]),
        title=title,
        said=said,
        tables=[table],
    )


def _embedded(figure: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(figure.read_bytes()).decode('ascii')}"


def _write(
    path: Path, *, csv: str, page: str, title: str, said: Sequence[str], tables: Sequence[Table]
) -> Path:
    markdown = [f"# {escape_markdown(title)}", *map(escape_markdown, said), *map(to_markdown, tables)]
    latex = [
        rf"\section*{{{escape_latex(title)}}}",
        *(f"{escape_latex(line)}\n" for line in said),
        *map(to_latex, tables),
    ]
    for suffix, text in (
        (".csv", csv),
        (".md", "\n\n".join(filter(None, markdown)) + "\n"),
        (".tex", _PREAMBLE + "\n".join(latex) + "\n\\end{document}\n"),
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


def _warnings(comparison: Comparison) -> list[str]:
    return [*other_setting(comparison), *comparison.remarks]


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


def _html(comparison: Comparison, title: str, said: Iterable[str]) -> str:
    words = [f"<p>{escape_html(line)}</p>" for line in (*said, CELL) if line]
    tables = [_html_table(group) for group in side_by_side(comparison.blocks)]
    return html_page(title, [*words, *tables])


def html_page(title: str, parts: Iterable[str]) -> str:
    """Return a page of parts that are HTML already; light or dark as its reader has it."""
    heading = escape_html(title)
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{heading}</h1>\n{body}\n</main></body></html>\n"
    )


def side_by_side(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return blocks in groups that have the same rows and stand beside each other, as the paper sets them."""
    return [
        list(group)
        for _, group in itertools.groupby(
            blocks, key=lambda one: (one.block, tuple(name for name, _ in one.rows))
        )
    ]


def _html_table(blocks: Sequence[Block]) -> str:
    groups = "".join(
        f'<th class="over" scope="colgroup" colspan="{len(one.columns)}">{escape_html(one.group)}</th>'
        for one in blocks
    )
    columns = "".join(f'<th scope="col">{escape_html(name)}</th>' for one in blocks for name in one.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape_html(blocks[0].rows[place][0])}</th>'
        + "".join(_html_cell(cell) for one in blocks for cell in one.rows[place][1])
        + "</tr>"
        for place in range(len(blocks[0].rows))
    )
    caption = f"<caption>{escape_html(blocks[0].block)}</caption>" if blocks[0].block else ""
    return (
        f'<div class="scroll"><table>{caption}<thead><tr><th></th>{groups}</tr>'
        f"<tr><th></th>{columns}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _html_cell(cell: Cell | None) -> str:
    if cell is None:
        return "<td></td>"
    apart = ' class="apart"' if cell.state in {"above", "below", "differs"} else ""
    paper = escape_html(cell.paper)
    paper = f"<b>{paper}</b>" if cell.figure.mark == "bold" else paper
    interval = f" <small>{escape_html(cell.interval)}</small>" if cell.interval else ""
    own = f"{escape_html(cell.shown)}{escape_html(cell.mark)}{interval}"
    return f"<td{apart}>{own}<br><small>{paper}</small></td>"
