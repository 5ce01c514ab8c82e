"""What a study of a given size takes: hours, dollars, gigabytes, by figures that were measured.

Prints the table of docs/scale.md for your own numbers; `--plot FILE.svg` draws its picture. A constant is
measured (RESULTS.md says how and on what) or reckoned from what was, as docs/scale.md says; each can be
replaced by your own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common import line, parser


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one unit of work takes here.

    Attributes:
        gpu_tokens: Tokens a second of one H200, the shape of Qwen2.5-7B, 32 texts at once, own eager loop.
        continuation_bytes: Of a line in a study's JSON Lines, beside its text.
        pair_bytes: Of a pair in SQLite, beside its texts.
        text_factor: What a byte of text takes in SQLite: rows of 2.5 kB leave parts of pages empty.
        rating_bytes: Of a showing in SQLite with its indices.
        verdict_bytes: Of a verdict on one criterion in SQLite.
        answer_bytes: Of a judge's answer with six verdicts: request, journal, showing and verdicts in SQLite.
        rating_ms: Processor of the app for one rating, raters thinking.
        save_ms: Of the database's one writer for one rating: hand-out and save, each on disk.
        judge_ms: Processor of `guard-eval judge` for one request.
        tidy_us: Processor for reading one verdict of the database into a row.
        tidy_bytes: Memory of such a row.
        report_us: Processor of a report for one verdict, beside `report_s`.
        report_s: Of a report on some thousand verdicts, the more the size does not decide.
        report_bytes: Memory of a report for one verdict.
        report_most: More verdicts are refused.
    """

    gpu_tokens: float = 1600
    continuation_bytes: float = 445
    pair_bytes: float = 260
    text_factor: float = 1.6
    rating_bytes: float = 280
    verdict_bytes: float = 75
    answer_bytes: float = 2190
    rating_ms: float = 9.6
    save_ms: float = 6.0
    judge_ms: float = 2.0
    tidy_us: float = 34
    tidy_bytes: float = 1700
    report_us: float = 18.7
    report_s: float = 6.5
    report_bytes: float = 500
    report_most: float = 1e7


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A study: see the command line's help."""

    pairs: float
    overlap: float
    criteria: float
    raters: float
    minutes: float
    tokens: float
    text_bytes: float
    orders: float
    input_tokens: float
    output_tokens: float
    input_usd: float
    output_usd: float
    judge_rate: float
    gpus: float

    @property
    def ratings(self) -> float:
        """Return how often a person is shown a pair."""
        return self.pairs * self.overlap

    @property
    def verdicts(self) -> float:
        """Return how many verdicts people give, one for each criterion."""
        return self.ratings * self.criteria

    @property
    def requests(self) -> float:
        """Return how often the judge is asked."""
        return self.pairs * self.orders


def database(planned: Planned, measured: Measured) -> float:
    """Return the bytes of the pairs and of what people said."""
    pair = measured.pair_bytes + measured.text_factor * planned.text_bytes
    rating = measured.rating_bytes + planned.criteria * measured.verdict_bytes
    return planned.pairs * pair + planned.ratings * rating


def dollars(planned: Planned, _: Measured) -> float:
    """Return what the judge costs, no answer asked for twice."""
    each = planned.input_tokens * planned.input_usd + planned.output_tokens * planned.output_usd
    return planned.requests * each / 1e6


Line = tuple[str, Callable[[Planned, Measured], float], str]

LINES: tuple[Line, ...] = (
    ("people's ratings", lambda p, _: p.ratings, "count"),
    ("people's verdicts", lambda p, _: p.verdicts, "count"),
    (
        "generation, hours of all GPUs",
        lambda p, m: 2 * p.pairs * p.tokens / m.gpu_tokens / p.gpus / 3600,
        "hours",
    ),
    ("continuations on disk", lambda p, m: 2 * p.pairs * (p.text_bytes / 3 + m.continuation_bytes), "bytes"),
    ("people: hours of each rater", lambda p, _: p.ratings * p.minutes / 60 / p.raters, "hours"),
    ("people: hours in all", lambda p, _: p.ratings * p.minutes / 60, "hours"),
    ("app: processor hours", lambda p, m: p.ratings * m.rating_ms / 3.6e6, "hours"),
    ("app: raters at work that one core serves", lambda p, m: p.minutes * 60e3 / m.rating_ms, "count"),
    ("database: raters at work that its writer serves", lambda p, m: p.minutes * 60e3 / m.save_ms, "count"),
    ("database: pairs and people", database, "bytes"),
    ("judge: requests", lambda p, _: p.requests, "count"),
    ("judge: dollars, online", dollars, "dollars"),
    ("judge: dollars, in batches", lambda p, m: dollars(p, m) / 2, "dollars"),
    ("judge: hours at the provider's rate", lambda p, _: p.requests / p.judge_rate / 3600, "hours"),
    ("judge: processor hours", lambda p, m: p.requests * m.judge_ms / 3.6e6, "hours"),
    ("database: the judge's part", lambda p, m: p.requests * m.answer_bytes, "bytes"),
    ("export: seconds", lambda p, m: p.verdicts * m.tidy_us / 1e6, "seconds"),
    ("export: memory", lambda p, m: p.verdicts * m.tidy_bytes, "bytes"),
    ("report: seconds", lambda p, m: m.report_s + p.verdicts * m.report_us / 1e6, "report"),
    ("report: memory", lambda p, m: 2.5e8 + p.verdicts * m.report_bytes, "report bytes"),
)


def shown(value: float, unit: str, planned: Planned, measured: Measured) -> str:
    """Return a cell of the table."""
    if unit.startswith("report") and planned.verdicts > measured.report_most:
        return "refused"
    if unit.endswith("bytes"):
        for name, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
            if value >= size or name == "MB":
                return f"{value / size:.2g} {name}" if value < 100 * size else f"{value / size:,.0f} {name}"
    text = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
    return f"${text}" if unit == "dollars" else text


def read(arguments: list[str] | None) -> argparse.Namespace:
    """Return the settings."""
    command = parser(__doc__)
    option = command.add_argument
    option(
        "--verdicts", type=float, nargs="+", default=[1e4, 1e6, 1e8], help="sizes, unless --pairs is given"
    )
    option("--pairs", type=float, help="one size, in pairs")
    option("--raters", type=float, help="people; default: one for each 200 ratings")
    option("--overlap", type=float, default=2, help="people who rate a pair")
    option("--criteria", type=float, default=2, help="that people judge by")
    option("--minutes", type=float, default=1.0, help="that a rating takes a person")
    option("--tokens", type=float, default=256, help="of a continuation; a pair has two that are its own")
    option("--text-bytes", type=float, default=2500, help="of a pair's prompt and continuations")
    option("--orders", type=float, default=2, help="in which the judge is asked")
    option("--input-tokens", type=float, default=1790, help="of a request: `guard-eval judge --dry-run`")
    option("--output-tokens", type=float, default=52, help="of an answer on six criteria")
    option("--input-usd", type=float, default=2.0, help="a million; gpt-4.1 in judge/pricing/prices.toml")
    option("--output-usd", type=float, default=8.0, help="likewise")
    option("--judge-rate", type=float, default=8.0, help="requests a second that the provider allows")
    option("--gpus", type=float, default=1)
    for name, value in vars(Measured()).items():
        option(f"--{name.replace('_', '-')}", type=float, default=value, help="a constant, measured here")
    option("--plot", type=Path, help="also draw the picture, an SVG")
    return command.parse_args(arguments)


def studies(options: argparse.Namespace) -> list[Planned]:
    """Return the studies that the command line asks for."""
    each = options.overlap * options.criteria
    sizes = [options.pairs] if options.pairs else [verdicts / each for verdicts in options.verdicts]
    given = {name: getattr(options, name) for name in Planned.__dataclass_fields__ if name != "pairs"}
    return [
        Planned(**given | {"pairs": pairs, "raters": options.raters or max(1, pairs * options.overlap / 200)})
        for pairs in sizes
    ]


def table(planned: list[Planned], measured: Measured) -> str:
    """Return the table as Markdown, a column for each study."""
    lines = ["| " + line(f"{study.pairs:,.0f} pairs" for study in planned)]
    lines.append("| --- |" + " ---: |" * len(planned))
    for name, formula, unit in LINES:
        cells = (shown(formula(study, measured), unit, study, measured) for study in planned)
        lines.append(line([name, *cells]))
    return "\n".join(lines)


CURVES = (
    ("one GPU generates", 2, lambda p, m: 2 * p.pairs * p.tokens / m.gpu_tokens / 3600),
    ("200 people rate", 8, lambda p, _: p.ratings * p.minutes / 60 / 200),
    ("one writer of the database", 0, lambda p, m: p.ratings * m.save_ms / 3.6e6),
    ("one judge, 8 requests a second", -7, lambda p, _: p.requests / p.judge_rate / 3600),
    ("report", 0, lambda p, m: (m.report_s + p.verdicts * m.report_us / 1e6) / 3600),
)


def plot(options: argparse.Namespace, measured: Measured, path: Path) -> None:
    """Draw hours over verdicts, a line for each part."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "scale"
    from matplotlib import pyplot as plt

    options.pairs, options.verdicts = None, [10 ** (3 + step / 4) for step in range(25)]
    every = studies(options)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, up, formula in CURVES:
        fits = [study for study in every if name != "report" or study.verdicts <= measured.report_most]
        hours = [formula(study, measured) for study in fits]
        (line,) = axes.loglog([study.verdicts for study in fits], hours)
        axes.annotate(
            name, (fits[-1].verdicts, hours[-1]), (4, up), textcoords="offset points", va="center",
            color=line.get_color(), fontsize=8,
        )  # fmt: skip
    for hours, name in ((1, "an hour"), (24, "a day"), (24 * 30, "a month"), (24 * 365, "a year")):
        axes.axhline(hours, color="0.85", linewidth=0.8, zorder=0)
        axes.text(1.1e3, hours * 1.1, name, color="0.5", fontsize=8)
    axes.set(xlabel="people's verdicts", ylabel="hours", xlim=(1e3, 1e11), ylim=(1e-3, 1e6))
    axes.set_xticks([10.0**power for power in range(3, 10)])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and draw the picture if it is asked for."""
    options = read(arguments)
    measured = Measured(**{name: getattr(options, name) for name in Measured.__dataclass_fields__})
    print(table(studies(options), measured))
    if options.plot:
        plot(options, measured, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
