"""Figures of traces: the lines are the recorded numbers, what is missing is named."""

import xml.etree.ElementTree as ET

import pytest

from guard_eval.metrics import trace_figures
from guard_eval.metrics.trace_figures import SERIES, behaviour, summaries
from guard_eval.records import Trace

pytestmark = pytest.mark.slow

WHOLE = Trace(
    id="one",
    prompt_id="p1",
    values={
        "H": [3.9, 5.6, 5.5, 0.1],
        "H_glob": [3.9, 4.8, 5.0, 3.8],
        "k": [10, 10, 8, 14],
        "alpha": [0.5, 0.7, 0.0, 1.0],
        "q": [1.0, 1.7, 1.1, 4784.2],
    },
)
SHORT = Trace(id="two", prompt_id="p2", values={name: values[:2] for name, values in WHOLE.values.items()})
PART = Trace(id="three", prompt_id="p3", values={"H": [1.0, 2.0, 3.0], "alpha": [0.5, 0.6, 0.7]})


@pytest.fixture
def draw(monkeypatch):
    """A function that draws traces, and returns the figure's axes by their labels and its texts."""
    kept, plain = [], trace_figures.finished

    def finished(figure, axes, **options):
        kept.append(figure)
        return plain(figure, axes, **options)

    def drawn(*traces, title="guard"):
        found = behaviour(traces, name="f", title=title)
        elements = ET.fromstring(found.svg).iter("{http://www.w3.org/2000/svg}text")
        axes = {axes.get_ylabel(): axes for axes in kept[-1].axes}
        return axes, ["".join(element.itertext()).strip() for element in elements]

    monkeypatch.setattr(trace_figures, "finished", finished)
    return drawn


def test_one_text_is_drawn_as_recorded(draw):
    axes, texts = draw(WHOLE)
    lines = {line.get_label(): line for panel in axes.values() for line in panel.get_lines()}
    assert len(lines) == 4
    for name, label in SERIES.items():
        assert list(lines[label].get_xdata()) == [1, 2, 3, 4]
        assert list(lines[label].get_ydata()) == WHOLE.values[name]
    assert lines["local entropy Hₜ"].get_linestyle() == "-"
    assert lines["global entropy H_glob"].get_linestyle() == "--"
    assert lines["candidates kₜ"].get_drawstyle() == "steps-mid"
    assert set(axes) == {"entropy (nats)", "kₜ (candidates)", "αₜ"}
    assert {"guard", "One text of 4 tokens.", "local entropy Hₜ"} <= set(texts)


def test_percentiles_and_means_by_hand():
    # step 1: 1, 2, 3 → between 1 and 2 at a fifth of the way: 1.2, mean 2, 2.8; step 2: 4 and 6; step 3: 5
    low, mean, high = summaries([[1.0, 4.0, 5.0], [2.0, 6.0], [3.0]])
    assert low == pytest.approx([1.2, 4.2, 5.0])
    assert mean == pytest.approx([2.0, 5.0, 5.0])
    assert high == pytest.approx([2.8, 5.8, 5.0])


def test_many_texts_are_drawn_as_means_and_bands(draw):
    axes, texts = draw(WHOLE, SHORT, PART)
    lines = {line.get_label(): line for line in axes["entropy (nats)"].get_lines()}
    means = [(3.9 + 3.9 + 1) / 3, (5.6 + 5.6 + 2) / 3, (5.5 + 3) / 2, 0.1]
    assert list(lines[SERIES["H"]].get_ydata()) == pytest.approx(means)
    assert list(lines[SERIES["H_glob"]].get_ydata())[2:] == [5.0, 3.8]
    (band,) = axes["αₜ"].collections
    heights = {x: sorted(y for at, y in band.get_paths()[0].vertices if at == x) for x in (1, 3)}
    # at the third token 0 and 0.7 are left: 0.07 and 0.63
    assert (heights[3][0], heights[3][-1]) == pytest.approx((0.07, 0.63))
    (running,) = axes["texts"].patches
    assert list(running.get_data().values) == [3, 3, 2, 1]
    assert "still running: 3 at first, 1 at last" in texts
    assert any("Recorded: H_glob in 2 texts only, kₜ in 2 texts only." in text for text in texts)


@pytest.mark.parametrize("traces", [[PART], [PART, PART]])
def test_what_a_trace_lacks_is_named(draw, traces):
    axes, texts = draw(*traces)
    assert any("Not recorded: H_glob, kₜ." in text for text in texts)
    assert texts.count("not recorded") == 1
    assert "local entropy Hₜ" in texts
    assert "global entropy H_glob" not in texts
    assert axes["kₜ (candidates)"].get_lines() == []


@pytest.mark.parametrize("values", [{}, {"H": []}, {"q": [1.0]}])
def test_nothing_to_show_is_no_figure(values):
    trace = Trace(id="x", prompt_id="p", values=values)
    assert behaviour([trace], name="f", title="t") is None
    assert behaviour([trace, trace], name="f", title="t") is None
    assert behaviour([], name="f", title="t") is None


@pytest.mark.parametrize("title", ["$x", "$x_1^2$", "<b>", "a\x00\n&", "W" * 400])
def test_titles_are_text(title, draw):
    _, texts = draw(WHOLE, title=title)
    wanted = {"a\x00\n&": "a\ufffd &", "W" * 400: "W" * 65 + "…"}.get(title, title)
    assert wanted in texts


def test_a_text_of_one_token_is_a_point(draw):
    trace = Trace(id="x", prompt_id="p", values={name: values[:1] for name, values in WHOLE.values.items()})
    axes, texts = draw(trace)
    assert {line.get_marker() for panel in axes.values() for line in panel.get_lines()} == {"o"}
    assert "One text of 1 token." in texts


@pytest.mark.parametrize("traces", [[WHOLE], [WHOLE, SHORT]])
def test_the_same_bytes_again(traces):
    assert behaviour(traces, name="f", title="t") == behaviour(traces, name="f", title="t")
