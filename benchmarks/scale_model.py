"""What a study of a given size takes: hours, dollars, gigabytes, by figures that were measured.

Prints the table of docs/scale.md for your own numbers. A constant of `MEASURED` is measured (RESULTS.md says
how and on what) or computed from what was, as docs/scale.md says; each can be replaced by your own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from common import line, parser

PLANNED = {
    "overlap": (2, "people who rate a pair"),
    "criteria": (2, "that people judge by"),
    "minutes": (1, "that a rating takes a person"),
    "tokens": (256, "of a continuation; a pair has two that are its own"),
    "text-bytes": (2500, "of a pair's prompt and continuations"),
    "orders": (2, "in which the judge is asked"),
    "input-tokens": (1790, "of a request: `guard-eval judge --dry-run`"),
    "output-tokens": (52, "of an answer on six criteria"),
    "input-usd": (2, "a million; gpt-4.1"),
    "output-usd": (8, "likewise"),
    "judge-rate": (8, "requests a second that the provider allows"),
    "gpus": (1, "that generate"),
}
MEASURED = {
    "gpu-tokens": (1600, "tokens a second of one H200, Qwen2.5-7B's shape, 32 texts at once, own eager loop"),
    "continuation-bytes": (445, "of a line in a study's JSON Lines, beside its text"),
    "pair-bytes": (260, "of a pair in SQLite, beside its texts"),
    "text-factor": (1.6, "what a byte of text takes in SQLite: rows of 2.5 kB leave parts of pages empty"),
    "rating-bytes": (280, "of a showing in SQLite with its indices"),
    "verdict-bytes": (75, "of a verdict on one criterion in SQLite"),
    "answer-bytes": (2190, "of a judge's answer with six verdicts: request, journal, showing, verdicts"),
    "rating-ms": (9.6, "processor of the app for one rating, raters thinking"),
    "save-ms": (6, "of the database's one writer for one rating: hand-out and save, each on disk"),
    "judge-ms": (2, "processor of `guard-eval judge` for one request"),
    "tidy-us": (34, "processor for reading one verdict of the database into a row"),
    "tidy-bytes": (1700, "memory of such a row"),
    "report-us": (18.7, "processor of a report for one verdict, beside report-s"),
    "report-s": (6.5, "of a report on some thousand verdicts, the more the size does not decide"),
    "report-bytes": (500, "memory of a report for one verdict"),
    "report-most": (1e7, "verdicts; more are refused"),
}

Study = argparse.Namespace
"""The options by name, and `ratings`, `verdicts` of people, `requests` to the judge."""


def database(s: Study) -> float:
    """Return the bytes of the pairs and of people's ratings."""
    pair = s.pair_bytes + s.text_factor * s.text_bytes
    return s.pairs * pair + s.ratings * (s.rating_bytes + s.criteria * s.verdict_bytes)


def dollars(s: Study) -> float:
    """Return what the judge costs, no answer asked for twice."""
    return s.requests * (s.input_tokens * s.input_usd + s.output_tokens * s.output_usd) / 1e6


LINES: tuple[tuple[str, Callable[[Study], float], str], ...] = (
    ("people's ratings", lambda s: s.ratings, ""),
    ("people's verdicts", lambda s: s.verdicts, ""),
    ("generation, hours of all GPUs", lambda s: 2 * s.pairs * s.tokens / s.gpu_tokens / s.gpus / 3600, ""),
    ("continuations on disk", lambda s: 2 * s.pairs * (s.text_bytes / 3 + s.continuation_bytes), "bytes"),
    ("people: hours of each rater", lambda s: s.ratings * s.minutes / 60 / s.raters, ""),
    ("people: hours in all", lambda s: s.ratings * s.minutes / 60, ""),
    ("app: processor hours", lambda s: s.ratings * s.rating_ms / 3.6e6, ""),
    ("app: raters at work that one core serves", lambda s: s.minutes * 60e3 / s.rating_ms, ""),
    ("database: raters at work that its writer serves", lambda s: s.minutes * 60e3 / s.save_ms, ""),
    ("database: pairs and people", database, "bytes"),
    ("judge: requests", lambda s: s.requests, ""),
    ("judge: dollars, online", dollars, "dollars"),
    ("judge: dollars, in batches", lambda s: dollars(s) / 2, "dollars"),
    ("judge: hours at the provider's rate", lambda s: s.requests / s.judge_rate / 3600, ""),
    ("judge: processor hours", lambda s: s.requests * s.judge_ms / 3.6e6, ""),
    ("database: the judge's part", lambda s: s.requests * s.answer_bytes, "bytes"),
    ("export: seconds", lambda s: s.verdicts * s.tidy_us / 1e6, ""),
    ("export: memory", lambda s: s.verdicts * s.tidy_bytes, "bytes"),
    ("report: seconds", lambda s: s.report_s + s.verdicts * s.report_us / 1e6, "report"),
    ("report: memory", lambda s: 2.5e8 + s.verdicts * s.report_bytes, "report bytes"),
)


def shown(value: float, unit: str, study: Study) -> str:
    """Return a cell of the table."""
    if unit.startswith("report") and study.verdicts > study.report_most:
        return "refused"
    if unit.endswith("bytes"):
        for name, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
            if value >= size or name == "MB":
                return f"{value / size:.2g} {name}" if value < 100 * size else f"{value / size:,.0f} {name}"
    text = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
    return f"${text}" if unit == "dollars" else text


def main(arguments: list[str] | None = None) -> int:
    """Print the table as Markdown, a column for each study."""
    command = parser(__doc__)
    option = command.add_argument
    option(
        "--verdicts", type=float, nargs="+", default=[1e4, 1e6, 1e8], help="sizes, unless --pairs is given"
    )
    option("--pairs", type=float, help="one size, in pairs")
    option("--raters", type=float, help="people; default: one for each 200 ratings")
    for name, (value, meaning) in (PLANNED | MEASURED).items():
        option(f"--{name}", type=float, default=value, help=meaning)
    given = vars(command.parse_args(arguments))
    each = given["overlap"] * given["criteria"]
    studies = []
    for pairs in [given["pairs"]] if given["pairs"] else [number / each for number in given["verdicts"]]:
        ratings = pairs * given["overlap"]
        people = given["raters"] or max(1, ratings / 200)
        sizes = {"ratings": ratings, "verdicts": pairs * each, "requests": pairs * given["orders"]}
        studies.append(Study(**given | sizes | {"pairs": pairs, "raters": people}))
    print("| " + line(f"{study.pairs:,.0f} pairs" for study in studies))
    print("| --- |" + " ---: |" * len(studies))
    for name, formula, unit in LINES:
        print(line([name, *(shown(formula(study), unit, study) for study in studies)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
