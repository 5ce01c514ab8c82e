"""The tables of `calibration.py`: what was required, the worst cases, and the whole grid, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import scipy
from common import table

Row = dict[str, float | int | str]
MARK = "<!-- The rest is written by benchmarks/calibration.py. -->"

PANELS = {
    "none": "no rater effects",
    "fixed": "fixed panel, biases in pairs",
    "one apart": "fixed panel, one rater apart",
    "random": "random raters",
}
MODELS = {"latent normal": "LN", "Dirichlet-multinomial": "DM"}
RATES = {
    "binomial": "binomial on pooled ratings (the paper's)",
    "flip": "**sign-flip on item means (default)**",
    "majority": "sign test on majorities",
    "wilcoxon": "Wilcoxon on item means",
}
INTERVALS = {
    "wilson": "Wilson on pooled non-ties",
    "clopper": "Clopper–Pearson on pooled non-ties",
    "t": "**item-cluster t (default)**",
    "bootstrap": "item bootstrap, percentile",
}
AGREEMENTS = {
    "kappa interval": "Fleiss' κ",
    "alpha interval": "Krippendorff's α, nominal",
    "ordinal interval": "Krippendorff's α, ordinal",
    "ac1 interval": "Gwet's AC1",
}
PREAMBLE = (
    "{studies} simulated studies a cell without a difference and {studies} with one, seed {seed}. A rate of "
    "5 % has a Monte-Carlo standard error of {error:.4f}: of a few hundred cells some are {thrice:.3f} off "
    "by chance. Agreement intervals rest on 2000 studies a cell at most, families on 10 000 at least."
)
FAMILIES = (
    "Chance that a true null hypothesis falls, three raters with biases in pairs. *Null true*: in all "
    "criteria, or in one while the others' win share is .6 (criteria independent)."
)
LEGEND = (
    "LN is latent normal, DM Dirichlet-multinomial. Behind an exact test's error rate stands the size it can "
    "attain. *At .6*: coverage and power where the win share is .6."
)
WORST_ERROR, LEAST_ERROR, WORST_FAMILY = 0.065, 0.035, 0.06
COVERED = (0.93, 0.97)
FEW = 40
SHOWN = 5


def markdown(tables: dict[str, list[Row]], *, studies: int, seed: int) -> str:
    """Return all tables under headings."""
    grid = tables["grid"]
    error = math.sqrt(0.05 * 0.95 / studies)
    few = [row for row in grid if int(row["items"]) < FEW]
    both = INTERVALS | {f"{name} apart": "" for name in INTERVALS}
    parts = [
        PREAMBLE.format(studies=studies, seed=seed, error=error, thrice=3 * error)
        + f" numpy {np.__version__}, scipy {scipy.__version__}.",
        "## What was required",
        _required(tables, error),
        "## Least and greatest over the grid",
        "Rejection rates at a nominal .05 where the methods do not differ:",
        _extremes(grid, RATES),
        f"Coverage of 95 % intervals, share .5 and .6, {FEW} items or more:",
        _extremes(_several(grid), both),
        "The same with 20 items:",
        _extremes(few, both),
        "Coverage of agreement intervals by number of items, fixed panels:",
        _by_items([row for row in grid if row["panel"] != "random" and row["raters"] != 1], AGREEMENTS),
        "## Families of criteria",
        FAMILIES,
        _families(tables),
        "## Three datasets",
        "Coverage of the t interval stratified by dataset; shares .4, .5 and .6, a third of the items each.",
        table(["raters' biases", *_SETTING, "t"], [_datasets(row) for row in tables["datasets"]]),
        "## The whole grid",
        LEGEND,
    ]
    for panel, words in PANELS.items():
        rows = [row for row in grid if row["panel"] == panel]
        if rows:
            parts += [f"### {words[0].upper()}{words[1:]}", _grid(rows)]
    return "\n\n".join(parts) + "\n"


def _several(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if int(row["items"]) >= FEW]


def _required(tables: dict[str, list[Row]], error: float) -> str:
    panel = [row for row in tables["grid"] if row["panel"] != "random"]
    several = _several(panel)
    attainable = [row for row in panel if _number(row, "flip size") >= LEAST_ERROR]
    families = [*tables["families"], *tables["mixed"]]
    least, most, together = _rate(LEAST_ERROR), _rate(WORST_ERROR), _rate(WORST_FAMILY)
    low, high = COVERED
    chance = LEAST_ERROR - 3 * error
    attained = f"and at least {least} (three Monte-Carlo errors allowed) where its attainable size is"
    covered = f"covers {_rate(low)} to {_rate(high)}, fixed panels, {FEW} items or more"
    checks = [
        (f"The default test's error is at most {most}, fixed panels", panel, "flip", 0, WORST_ERROR),
        (attained, attainable, "flip", chance, 1),
        (f"The t interval {covered}, share .5", several, "t", low, high),
        ("the same, share .6", several, "t apart", low, high),
        ("the same, three datasets", _several(tables["datasets"]), "t", low, high),
        (f"The family-wise error after Holm is at most {together}", families, "holm", 0, WORST_FAMILY),
    ]
    pairs = [row for row in several if row["raters"] != 1]
    checks += [
        (f"The interval of {name} {covered}", pairs, key, low, high) for key, name in AGREEMENTS.items()
    ]
    lines = [line for words, rows, *rest in checks if rows for line in _checked(words, rows, *rest)]
    return table(["requirement", "", "least – greatest"], lines)


def _checked(words: str, rows: list[Row], key: str, lowest: float, highest: float) -> Iterator[list[str]]:
    """Return a line on a requirement, and one on each of the worst cells that fail it."""
    rates = [_number(row, key) for row in rows]
    bad = [row for row in rows if not lowest <= _number(row, key) <= highest]
    bad.sort(key=lambda row: min(_number(row, key) - lowest, highest - _number(row, key)))
    held = f"**FAILS** in {len(bad)} of {len(rows)} cells" if bad else f"**holds** in all {len(rows)} cells"
    yield [words, held, f"{_rate(min(rates))} – {_rate(max(rates))}"]
    for row in bad[:SHOWN]:
        yield ["", _named(row), _rate(_number(row, key))]
    if len(bad) > SHOWN:
        yield ["", f"and {len(bad) - SHOWN} more", ""]


def _extremes(rows: list[Row], names: dict[str, str]) -> str:
    """Return the range of each quantity over the cells of each panel; a nameless one joins its namesake."""
    panels = [panel for panel in PANELS if any(row["panel"] == panel for row in rows)]
    lines = []
    for name, words in names.items():
        if not words:
            continue
        keys = [key for key in names if key in (name, f"{name} apart")]
        line = [words]
        for panel in panels:
            rates = [_number(row, key) for row in rows if row["panel"] == panel for key in keys if key in row]
            line.append(f"{_rate(min(rates))} – {_rate(max(rates))}")
        lines.append(line)
    return table(["", *(PANELS[panel] for panel in panels)], lines)


def _by_items(rows: list[Row], names: dict[str, str]) -> str:
    """Return the range of each quantity for each number of items."""
    sizes = sorted({int(row["items"]) for row in rows})
    lines = []
    for name, words in names.items():
        by_size = [[_number(row, name) for row in rows if row["items"] == size] for size in sizes]
        lines.append([words, *(f"{_rate(min(rates))} – {_rate(max(rates))}" for rates in by_size)])
    return table(["", *(f"{size} items" for size in sizes)], lines)


_SETTING = ["model", "κ", "ties", "raters", "items"]


def _setting(row: Row) -> list[str]:
    kappa = "any" if row["raters"] == 1 else _rate(_number(row, "kappa"), 2)
    model = "any" if row["raters"] == 1 and row["panel"] == "none" else MODELS[str(row["model"])]
    return [model, kappa, _rate(_number(row, "ties"), 2), str(row["raters"]), str(row["items"])]


def _named(row: Row) -> str:
    model, kappa, ties, raters, items = _setting(row)
    more = f", {row['criteria']} criteria, correlation {row['correlation']}" if row["criteria"] != 1 else ""
    return (
        f"{model}, κ {kappa}, ties {ties}, {raters} raters, {items} items, {PANELS[str(row['panel'])]}{more}"
    )


def _grid(rows: list[Row]) -> str:
    heads = [*_SETTING, "binomial", "sign-flip", "majority", "Wilcoxon", "Wilson", "C–P", "t", "bootstrap"]
    heads += ["κ", "α", "α ordinal", "AC1", "t at .6", "bootstrap at .6"]
    heads += ["sign-flip at .6", "majority at .6", "Wilcoxon at .6"]
    keys = ["wilcoxon", *INTERVALS, *AGREEMENTS, "t apart", "bootstrap apart"]
    keys += ["flip apart", "majority apart", "wilcoxon apart"]
    lines = []
    for row in rows:
        exact = [
            f"{_rate(_number(row, name))} ({_rate(_number(row, f'{name} size'))})"
            for name in ("binomial", "flip", "majority")
        ]
        rest = [_rate(_number(row, key)) if key in row else "" for key in keys]
        lines.append([*_setting(row), *exact, *rest])
    return table(heads, lines)


def _families(tables: dict[str, list[Row]]) -> str:
    lines = []
    for kind, words in (("families", "all"), ("mixed", "one")):
        lines += [
            [*_setting(row), str(row["criteria"]), words, _rate(_number(row, "correlation"), 1)]
            + [_rate(_number(row, key)) for key in ("holm", "none", "pooled")]
            for row in tables[kind]
        ]
    heads = ["criteria", "null true", "correlation", "**sign-flip, Holm**", "sign-flip, uncorrected"]
    return table([*_SETTING, *heads, "binomial, Holm"], lines)


def _datasets(row: Row) -> list[str]:
    return [PANELS[str(row["panel"])], *_setting(row), _rate(_number(row, "t"))]


def _number(row: Row, key: str) -> float:
    return float(row[key])


def _rate(value: float, digits: int = 3) -> str:
    """Return a share as `.048`."""
    shown = f"{value:.{digits}f}"
    return shown[1:] if shown.startswith("0.") else shown
