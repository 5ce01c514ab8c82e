"""Figures: the marks and lines are the numbers, names stay text, and the bytes stay the same."""

import math
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from guard_eval.metrics.figures import SERIES, draw_metric, draw_trace
from guard_eval.records import Trace
from guard_eval.reporting.escaping import one_line
from guard_eval.texts.generations import HUMAN

pytestmark = pytest.mark.slow

HOSTILE = [
    "$x",
    "$x^2_1$",
    r"$\frac{1}{0",
    "<b>",
    "a & b",
    "]]>",
    "a\x00b\x1b\ufffe",
    "\ud800",
    "表情🙂",
    "=1+1",
]
VALUES = {
    "H": [3.9, 5.6, 5.5, 0.1],
    "H_glob": [3.9, 4.8, 5.0, 3.8],
    "k": [10, 10, 8, 14],
    "alpha": [0.5, 0.7, 0.0, 1.0],
    "q": [1.0, 1.7, 1.1, 4784.2],
}


def score(strategy, value, half=1.0):
    low, high = (None, None) if value is None or half is None else (value - half, value + half)
    fields = {"metric": "diversity", "dataset": "wikitext", "level": 0.95}
    return SimpleNamespace(strategy=strategy, value=value, low=low, high=high, **fields)


def trace(values=VALUES, title="guard"):
    return draw_trace(Trace(id="x", prompt_id="p", values=values), name="f", title=title)


def texts(figure):
    """Return all text elements of a figure's SVG, in a line."""
    elements = ET.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")
    return " ".join("".join(element.itertext()).strip() for element in elements)


def test_scores_are_sorted_and_drawn_at_their_limits():
    rows = [score("acs(q=1)", 92.4), score("bare", 95.0, half=None), score(HUMAN, 92.98), score("none", None)]
    figure = draw_metric(rows)
    [axes] = figure.figure.axes
    points = [(*line.get_xdata(), *line.get_ydata(), line.get_marker()) for line in axes.get_lines()]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # from the top downwards
    assert [mark for mark in points if mark[-1] in "oD"] == [(95.0, 0, "o"), (92.98, 1, "D"), (92.4, 2, "o")]
    ends = {tuple(line.get_xdata()) for line in axes.get_lines() if line.get_linestyle() == "-"}
    assert ends >= {(92.98 - 1, 92.98 + 1), (92.4 - 1, 92.4 + 1)}
    [guide] = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert list(guide.get_xdata()) == [92.98, 92.98]
    assert "acs(q=1): 92.40 [91.40, 93.40]" in texts(figure)
    assert figure.title == "Diversity · wikitext"
    assert figure.description.startswith("bare: 95.00; human: 92.98 [91.98, 93.98]; acs(q=1)")
    assert axes.get_xlabel() == "Diversity (%)"


@pytest.mark.parametrize("rows", [[], [score(HUMAN, 90.0)], [score("guard", math.nan), score("acs", None)]])
def test_no_score_is_no_figure(rows):
    assert draw_metric(rows) is None


def test_a_trace_is_drawn_as_recorded():
    figure = trace()
    axes = {axes.get_ylabel(): axes for axes in figure.figure.axes}
    lines = {line.get_label(): line for panel in axes.values() for line in panel.get_lines()}
    assert list(axes) == ["entropy (nats)", "kₜ (candidates)", "αₜ"]
    assert len(lines) == 4
    for name, label in SERIES.items():
        assert list(lines[label].get_xdata()) == [1, 2, 3, 4]
        assert list(lines[label].get_ydata()) == VALUES[name]
    styles = [lines[SERIES[name]].get_linestyle() for name in ("H", "H_glob")]
    assert styles == ["-", "--"]
    assert lines[SERIES["k"]].get_drawstyle() == "steps-mid"
    assert "One text of 4 tokens." in texts(figure)


def test_what_a_trace_lacks_is_named():
    figure = trace({"H": [1.0], "alpha": [0.5]})
    assert "One text of 1 token. Not recorded: global entropy H_glob, candidates kₜ." in texts(figure)
    assert [axes.get_ylabel() for axes in figure.figure.axes] == ["entropy (nats)", "αₜ"]
    assert {line.get_marker() for axes in figure.figure.axes for line in axes.get_lines()} == {"o"}


@pytest.mark.parametrize("values", [{}, {"H": []}, {"q": [1.0]}])
def test_nothing_recorded_is_no_figure(values):
    assert trace(values) is None


def test_names_are_text_and_the_bytes_stay_the_same():
    rows = [score(name, 90.0) for name in HOSTILE]
    shown = texts(draw_metric(rows))
    assert not [name for name in HOSTILE if one_line(name) not in shown]
    assert all(one_line(name) in texts(trace(title=name)) for name in HOSTILE)
    assert "W" * 65 + "…" in texts(trace(title="W" * 400))
    assert draw_metric(rows) == draw_metric(rows)
    assert trace() == trace()
