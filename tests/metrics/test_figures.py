"""Figures of scores: marks and lines are at the scores, and names are shown as plain text."""

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from guard_eval.metrics.figures import draw_scores_of_metric
from guard_eval.records import HUMAN
from guard_eval.reporting.escaping import join_lines

pytestmark = pytest.mark.slow


def score(strategy, value, half=1.0):
    low, high = (None, None) if value is None or half is None else (value - half, value + half)
    fields = {"metric": "diversity", "dataset": "wikitext", "level": 0.95}
    return SimpleNamespace(strategy=strategy, value=value, low=low, high=high, **fields)


def texts(figure):
    """Return all text in a figure's SVG as one line."""
    elements = ET.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")
    return " ".join("".join(element.itertext()).strip() for element in elements)


def test_figure_sorts_scores_and_draws_their_intervals():
    rows = [score("acs(q=1)", 92.4), score("bare", 95.0, half=None), score(HUMAN, 92.98), score("none", None)]
    figure = draw_scores_of_metric(rows)
    [axes] = figure.figure.axes
    points = [(*line.get_xdata(), *line.get_ydata(), line.get_marker()) for line in axes.get_lines()]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # from the top downwards
    assert [mark for mark in points if mark[-1] in "oD"] == [(95.0, 0, "o"), (92.98, 1, "D"), (92.4, 2, "o")]
    ends = {tuple(line.get_xdata()) for line in axes.get_lines() if line.get_linestyle() == "-"}
    assert ends >= {(92.98 - 1, 92.98 + 1), (92.4 - 1, 92.4 + 1)}
    [guide] = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert list(guide.get_xdata()) == [92.98, 92.98]
    assert "acs(q=1): 92.40 [91.40, 93.40]" in texts(figure)
    assert ">Diversity · wikitext</title>" in figure.svg
    assert ">bare: 95.00; human: 92.98 [91.98, 93.98]; acs(q=1)" in figure.svg
    assert axes.get_xlabel() == "Div. (%) ↑"


@pytest.mark.parametrize("rows", [[], [score(HUMAN, 90.0)], [score("acs", None)]])
def test_a_metric_without_scores_has_no_figure(rows):
    assert draw_scores_of_metric(rows) is None


def test_figures_escape_names():
    names = ["$x^2_1$", "a\x00b\x1b\ufffe", "\ud800", "表情🙂"]
    labels = texts(draw_scores_of_metric([score(name, 90.0) for name in names]))
    assert not [name for name in names if join_lines(name) not in labels]
