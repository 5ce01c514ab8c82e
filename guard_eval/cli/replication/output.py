"""What `guard-eval replicate` prints: the list of tables, and a table beside the paper's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from guard_eval.cli.console import say, say_next

if TYPE_CHECKING:
    from pathlib import Path

    from guard_eval.cli.replication.compare import Block, Cell, Comparison
    from guard_eval.cli.replication.machine import Machine
    from guard_eval.cli.replication.needs import Needs
    from guard_eval.cli.replication.registry import Entry
    from guard_eval.cli.replication.settings_apart import Departures

_WIDE, _WIDEST = 112, 164
"""Columns from which on the list has all needs, and says of each table what it is about."""
_TINY = 0.05


def show_list(*, as_json: bool) -> None:
    """Print every table and figure of the paper, a line each, or as JSON."""
    from guard_eval.cli.replication.machine import Machine
    from guard_eval.cli.replication.needs import needs
    from guard_eval.cli.replication.registry import ENTRIES

    machine = Machine()
    found = [(entry, needs(entry)) for entry in ENTRIES]
    if as_json:
        facts = [_facts(entry, needed, machine) for entry, needed in found]
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    columns = shutil.get_terminal_size().columns
    wide = columns >= _WIDE
    heads = _HEADS if wide else ("name", "TeX label", "GPU h", "runs here")
    rows = [_row(entry, needed, machine, wide=wide) for entry, needed in found]
    if columns >= _WIDEST:
        heads = (*heads, "about")
        rows = [(*row, entry.title) for row, (entry, _) in zip(rows, found, strict=True)]
    say_columns(heads, rows, right=_RIGHT)
    say(f"\nThis machine: {machine.words}. All with the paper's models and prompts. GPU hours are")
    say(
        "estimates for generating on one H200 (20 ms a step, 32 texts at once); measuring comes on top. GB is"
    )
    say("the GPU's memory, $ what a judge costs.")
    say("On a small model every table runs anywhere: --model bundled --limit 10 --max-new-tokens 64.")
    say("Tables of people and judges are also made from a file of verdicts: --verdicts FILE.csv.")
    say_next("guard-eval replicate NAME --dry-run")


_HEADS = ("name", "TeX label", "model", "tokens", "GPU h", "GB", "asks", "runs here")
_RIGHT = frozenset({"tokens", "GPU h", "GB"})


def _row(entry: Entry, needed: Needs, machine: Machine, *, wide: bool) -> tuple[str, ...]:
    hours = _hours(needed)
    here = machine.verdict(entry, needed)
    if not wide:
        return (entry.name, entry.label, hours, here)
    models = (
        entry.models[0] if len(entry.models) == 1 else f"{len(entry.models)} models" if entry.models else ""
    )
    memory = str(needed.memory_gb) if needed.memory_gb else ""
    return (entry.name, entry.label, models, _tokens(needed), hours, memory, _asks(entry, needed), here)


def _hours(needed: Needs) -> str:
    if not needed.tokens:
        return ""
    return "<0.1" if needed.gpu_hours < _TINY else f"{needed.gpu_hours:.1f}"


def _tokens(needed: Needs) -> str:
    if not needed.tokens:
        return ""
    return f"{needed.tokens / 1e6:.2f} M" if needed.tokens >= 1e4 else str(needed.tokens)


def _asks(entry: Entry, needed: Needs) -> str:
    people = f"{entry.people} people" if entry.people else ""
    cost = judge_cost(entry, needed)
    return ", ".join(filter(None, (people, "" if cost is None else f"${cost:.2f}")))


def judge_cost(entry: Entry, needed: Needs) -> float | None:
    """Return what the judge of an entry's study is expected to cost, in US dollars; None without one."""
    if not needed.requests:
        return None
    from guard_eval.cli.replication.study_files import settings_of
    from judge.pricing.prices import price

    known = price(settings_of(entry).judge[0])
    return None if known is None else needed.usd(input_usd=known.input, output_usd=known.output)


def _facts(entry: Entry, needed: Needs, machine: Machine) -> dict[str, object]:
    from guard_eval.cli.replication.registry import MODELS

    return {
        "name": entry.name,
        "label": entry.label,
        "title": entry.title,
        "kind": entry.kind,
        "study": entry.study or None,
        "models": [MODELS[name].hub for name in entry.models],
        "prompts": {name or "any": n for name, n in (entry.prompts or {}).items()},
        "tokens": needed.tokens,
        "gpu_hours": round(needed.gpu_hours, 3),
        "gpu_memory_gb": needed.memory_gb,
        "download_gb": needed.download_gb,
        "raters_per_pair": entry.people,
        "pairs": entry.pairs,
        "judge_requests": needed.requests,
        "judge_usd": judge_cost(entry, needed),
        "here": machine.verdict(entry, needed),
        "instead": entry.pointer or None,
    }


def say_columns(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[str]) -> None:
    """Print rows under headings, each on one line however long it is."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if head in right else cell.ljust(width)
            for head, cell, width in zip(heads, row, widths, strict=True)
        )
        return "  ".join(cells).rstrip()

    say(line(heads))
    say("─" * (sum(widths) + 2 * (len(widths) - 1)))
    for row in rows:
        say(line(row))


def finish(
    entry: Entry,
    folder: Path | None,
    blocks: tuple[Block, ...],
    apart: Departures,
    remarks: tuple[str, ...] = (),
) -> None:
    """Print a table beside the paper's, and write it where there is a folder for it."""
    from guard_eval.cli.replication.compare import Comparison
    from guard_eval.cli.replication.pages import write_pages

    comparison = Comparison(
        label=entry.label, title=entry.title, blocks=blocks, departures=apart.words, remarks=remarks
    )
    show(comparison)
    if folder is not None:
        page = write_pages(comparison, folder, name=entry.name)
        say(f"\nreplication: {page}, with intervals; also as .csv .md .tex")


def show(comparison: Comparison) -> None:
    """Print a table beside the paper's, block by block."""
    from guard_eval.cli.replication.pages import legend, other_setting

    say(f"\n{comparison.label}: {comparison.title}")
    for line in (*other_setting(comparison), *comparison.remarks):
        say(line)
    for block in comparison.blocks:
        _say_block(block)
    if said := legend(comparison):
        say(f"\n{said}.")


def _say_block(block: Block) -> None:
    """Print a block, with intervals where the terminal has room for them."""
    from guard_eval.cli.replication.pages import caption

    say(f"\n{caption(block)}" if block.title else "")
    lines = _lines(block, intervals=True)
    if max(map(len, lines)) > shutil.get_terminal_size().columns:
        lines = _lines(block, intervals=False)
    for line in lines:
        say(line.rstrip())


def _lines(block: Block, *, intervals: bool) -> list[str]:
    """Return a block's lines: under each heading the paper's figures and ours, or ours alone."""
    names = ["", "", *(name for name, _ in block.rows)]
    left = max(map(len, names))
    lines = [name.ljust(left) for name in names]
    for head, cells in zip(block.columns, zip(*(cells for _, cells in block.rows), strict=True), strict=True):
        shown = [("paper", " ours "), *(_pair(cell, interval=intervals) for cell in cells)]
        own = max(len(mine) for _, mine in shown)
        paper = 0 if block.only_ours else max(len(printed) for printed, _ in shown)
        paper = max(paper, len(head) - own)
        lines[0] += "  " + head.rjust(paper + own)
        for place, (printed, mine) in enumerate(shown, start=1):
            lines[place] += "  " + ("" if block.only_ours else printed).rjust(paper) + mine.rjust(own)
    return lines


def _pair(cell: Cell | None, *, interval: bool) -> tuple[str, str]:
    """Return what the paper prints, and ours with its mark; the others keep the mark's place free."""
    if cell is None:
        return "", ""
    limits = f"{cell.interval} " if interval and cell.interval else ""
    return cell.paper, f" {limits}{cell.shown}{cell.mark or ' '}"
