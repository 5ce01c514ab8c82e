"""Figures of traces: the lines are the recorded numbers, what is missing is named."""

import xml.etree.ElementTree as ET

import pytest

from guard_eval.metrics.trace_figures import SERIES, behaviour
from guard_eval.records import Trace

pytestmark = pytest.mark.slow

VALUES = {
    "H": [3.9, 5.6, 5.5, 0.1],
    "H_glob": [3.9, 4.8, 5.0, 3.8],
    "k": [10, 10, 8, 14],
    "alpha": [0.5, 0.7, 0.0, 1.0],
    "q": [1.0, 1.7, 1.1, 4784.2],
}


def draw(values, title="guard"):
    """Return the axes of a trace's figure by their labels, and its texts."""
    figure = behaviour(Trace(id="x", prompt_id="p", values=values), name="f", title=title)
    elements = ET.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")
    axes = {axes.get_ylabel(): axes for axes in figure.figure.axes}
    return axes, ["".join(element.itertext()).strip() for element in elements]


def test_one_text_is_drawn_as_recorded():
    axes, texts = draw(VALUES)
    lines = {line.get_label(): line for panel in axes.values() for line in panel.get_lines()}
    assert len(lines) == 4
    for name, label in SERIES.items():
        assert list(lines[label].get_xdata()) == [1, 2, 3, 4]
        assert list(lines[label].get_ydata()) == VALUES[name]
    assert lines["local entropy Hₜ"].get_linestyle() == "-"
    assert lines["global entropy H_glob"].get_linestyle() == "--"
    assert lines["candidates kₜ"].get_drawstyle() == "steps-mid"
    assert set(axes) == {"entropy (nats)", "kₜ (candidates)", "αₜ"}
    assert {"guard", "One text of 4 tokens.", "local entropy Hₜ"} <= set(texts)


def test_what_a_trace_lacks_is_named():
    axes, texts = draw({"H": [1.0, 2.0, 3.0], "alpha": [0.5, 0.6, 0.7]})
    assert "One text of 3 tokens. Not recorded: global entropy H_glob, candidates kₜ." in texts
    assert texts.count("not recorded") == 1
    assert "global entropy H_glob" not in texts
    assert axes["kₜ (candidates)"].get_lines() == []


@pytest.mark.parametrize("values", [{}, {"H": []}, {"q": [1.0]}])
def test_nothing_to_show_is_no_figure(values):
    assert behaviour(Trace(id="x", prompt_id="p", values=values), name="f", title="t") is None


@pytest.mark.parametrize("title", ["$x_1^2$", "<b>", "a\x00\n&", "W" * 400])
def test_titles_are_text(title):
    _, texts = draw(VALUES, title=title)
    wanted = {"a\x00\n&": "a\ufffd &", "W" * 400: "W" * 65 + "…"}.get(title, title)
    assert wanted in texts


def test_a_text_of_one_token_is_a_point():
    axes, texts = draw({name: values[:1] for name, values in VALUES.items()})
    assert {line.get_marker() for panel in axes.values() for line in panel.get_lines()} == {"o"}
    assert "One text of 1 token." in texts


def test_the_same_bytes_again():
    trace = Trace(id="x", prompt_id="p", values=VALUES)
    assert behaviour(trace, name="f", title="t") == behaviour(trace, name="f", title="t")
