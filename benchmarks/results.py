"""The figures of a run: printed as they come, kept as JSON, and set as Markdown tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import transformers

Cell = str | float | int | None


def about(device: torch.device, options: argparse.Namespace) -> dict[str, Cell]:
    """Return what a reader must know of the machine and the settings."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "device": gpu or _processor(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "dtype": options.dtype,
        "shape": options.shape,
        "prompt_tokens": options.prompt_tokens,
        "new_tokens": options.new_tokens,
        "rounds": options.rounds,
        "quick": options.quick,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Return the CPU's name, as Linux tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table under way.

    Attributes:
        title: Its heading.
        columns: Key of a row's value → heading of the column.
    """

    title: str
    columns: dict[str, str]
    rows: list[dict[str, Cell]] = field(default_factory=list)

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"## {self.title}", "", _line(self.columns.values()), _line("---" for _ in self.columns)]
        lines += [_line(_shown(row.get(key)) for key in self.columns) for row in self.rows]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Results:
    """Everything a run found.

    Attributes:
        about: Machine and settings.
        path: Where the JSON goes after each row, if anywhere: a run that is stopped leaves what it had.
    """

    about: dict[str, Cell]
    path: Path | None = None
    tables: dict[str, Table] = field(default_factory=dict)

    def add(self, name: str, title: str, columns: dict[str, str], row: dict[str, Cell]) -> None:
        """Print a row, and append it to the table `name`, which is begun if it is not there."""
        table = self.tables.setdefault(name, Table(title=title, columns=columns))
        if not table.rows:
            print(f"{name}: {_line(columns.values())}", flush=True)
        table.rows.append(row)
        print(f"{name}: {_line(_shown(row.get(key)) for key in columns)}", flush=True)
        if self.path:
            self.path.write_text(
                json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )

    def as_json(self) -> dict[str, object]:
        """Return everything for `json.dumps`."""
        return {"about": self.about, "tables": {name: asdict(table) for name, table in self.tables.items()}}

    def heading(self) -> str:
        """Return a paragraph on the machine and the settings."""
        a = self.about
        return (
            f"{a['device']}; {a['threads']} threads, {a['cores']} cores; model `{a['shape']}`; "
            f"{a['dtype']}; prompts of {a['prompt_tokens']} tokens, {a['new_tokens']} new; "
            f"at most {a['rounds']} rounds; torch {a['torch']}, transformers {a['transformers']}, "
            f"Python {a['python']}"
        )

    def markdown(self) -> str:
        """Return all tables, under the heading."""
        return "\n".join([self.heading() + "\n", *(table.markdown() for table in self.tables.values())])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _shown(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.4f}"
    return str(value)
