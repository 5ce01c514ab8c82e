"""Figures of traces: the lines are the recorded numbers, what is missing is named."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.text import Text

from guard_eval.errors import StudyError
from guard_eval.metrics.figures import traces
from guard_eval.metrics.figures.traces import behaviour, behaviours, summaries
from guard_eval.records import Trace

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
def drawn(monkeypatch):
    """The matplotlib figures that were saved."""
    kept = []
    save = traces.save
    monkeypatch.setattr(traces, "save", lambda figure, *more: (kept.append(figure), save(figure, *more)))
    return kept


def panels(figure):
    return {axes.get_ylabel(): axes for axes in figure.axes}


def texts(path):
    return ["".join(e.itertext()).strip() for e in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_one_text_is_drawn_as_recorded(tmp_path, drawn):
    assert behaviour(WHOLE, tmp_path / "f.svg", title="guard")
    axes = panels(drawn[0])
    lines = {line.get_label(): line for panel in axes.values() for line in panel.get_lines()}
    assert len(lines) == 4
    for name, label in traces.SERIES.items():
        assert list(lines[label].get_xdata()) == [1, 2, 3, 4]
        assert list(lines[label].get_ydata()) == WHOLE.values[name]
    assert lines["local entropy Hₜ"].get_linestyle() == "-"
    assert lines["global entropy H_glob"].get_linestyle() == "--"
    assert lines["candidates kₜ"].get_drawstyle() == "steps-mid"
    assert set(axes) == {"entropy (nats)", "kₜ (candidates)", "αₜ"}
    assert {"guard", "One text of 4 tokens", "local entropy Hₜ"} <= set(texts(tmp_path / "f.svg"))


def test_percentiles_and_means_by_hand():
    # step 1: 1, 2, 3 → between 1 and 2 at a fifth of the way: 1.2, mean 2, 2.8; step 2: 4 and 6; step 3: 5
    low, mean, high = summaries([[1.0, 4.0, 5.0], [2.0, 6.0], [3.0]])
    assert low == pytest.approx([1.2, 4.2, 5.0])
    assert mean == pytest.approx([2.0, 5.0, 5.0])
    assert high == pytest.approx([2.8, 5.8, 5.0])


def test_many_texts_are_drawn_as_means_and_bands(tmp_path, drawn):
    assert behaviours([WHOLE, SHORT, PART], tmp_path / "f.svg", title="guard")
    axes = panels(drawn[0])
    solid, dashed = (
        next(line for line in axes["entropy (nats)"].get_lines() if line.get_linestyle() == style)
        for style in ("-", "--")
    )
    means = [(3.9 + 3.9 + 1) / 3, (5.6 + 5.6 + 2) / 3, (5.5 + 3) / 2, 0.1]
    assert list(solid.get_ydata()) == pytest.approx(means)
    assert list(dashed.get_ydata())[2:] == [5.0, 3.8]
    (band,) = axes["αₜ"].collections
    heights = {x: sorted(y for at, y in band.get_paths()[0].vertices if at == x) for x in (1, 3)}
    # at the third token 0 and 0.7 are left: 0.07 and 0.63
    assert (heights[3][0], heights[3][-1]) == pytest.approx((0.07, 0.63))
    (running,) = axes["texts"].patches
    assert list(running.get_data().values) == [3, 3, 2, 1]
    found = texts(tmp_path / "f.svg")
    assert "still running: 3 at first, 1 at last" in found
    assert "Recorded: H_glob in 2 texts only, kₜ in 2 texts only." in found


def test_what_a_trace_lacks_is_named(tmp_path, drawn):
    one, every = tmp_path / "one.svg", tmp_path / "every.svg"
    assert behaviour(PART, one, title="acs(q=1)")
    assert behaviours([PART], every, title="acs(q=1)")
    for path in (one, every):
        found = texts(path)
        assert "Not recorded: H_glob, kₜ." in found
        assert found.count("not recorded") == 1
        assert "local entropy Hₜ" in found
        assert "global entropy H_glob" not in found
    assert panels(drawn[0])["kₜ (candidates)"].get_lines() == []


@pytest.mark.parametrize("values", [{}, {"H": []}, {"q": [1.0]}])
def test_nothing_to_show_is_no_figure(values, tmp_path):
    trace = Trace(id="x", prompt_id="p", values=values)
    assert not behaviour(trace, tmp_path / "f.svg", title="t")
    assert not behaviours([trace], tmp_path / "f.svg", title="t")
    assert not behaviours([], tmp_path / "f.svg", title="t")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("title", ["$x", "$x_1^2$", "<b>", "a\x00\n&", "W" * 400, ""])
def test_titles_are_text_and_all_can_be_read(title, tmp_path, drawn):
    assert behaviour(WHOLE, tmp_path / "f.svg", title=title)
    assert behaviours([PART], tmp_path / "g.svg", title=title)
    found = texts(tmp_path / "f.svg")
    wanted = {"a\x00\n&": "a\ufffd &"}.get(title, title)
    assert any(text == wanted or (len(title) > 100 and text.startswith("WWWW")) for text in [*found, ""])
    for figure in drawn:
        axes = [axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)]
        unseen = {
            tick.label1 for axis in axes for tick in axis.get_major_ticks()
        }  # some lie outside the axes
        for text in figure.findobj(Text):
            assert text.get_fontsize() >= 9
            if text not in unseen and text.get_text().strip() and text.get_visible():
                assert text.get_window_extent().x1 <= figure.bbox.x1 + 1


def test_a_text_of_one_token_is_a_point(tmp_path, drawn):
    trace = Trace(id="x", prompt_id="p", values={name: values[:1] for name, values in WHOLE.values.items()})
    assert behaviour(trace, tmp_path / "f.svg", title="t")
    assert behaviours([trace], tmp_path / "g.png", title="t")
    assert {line.get_marker() for axes in drawn[0].axes for line in axes.get_lines()} == {"o"}
    assert "One text of 1 token" in texts(tmp_path / "f.svg")


def test_the_same_bytes_again(tmp_path):
    for ending in ("svg", "png"):
        for name in ("a", "b"):
            assert behaviour(WHOLE, tmp_path / f"one-{name}.{ending}", title="t")
            assert behaviours([WHOLE, SHORT], tmp_path / f"all-{name}.{ending}", title="t")
        for kind in ("one", "all"):
            one, other = (tmp_path / f"{kind}-{name}.{ending}" for name in ("a", "b"))
            assert one.read_bytes() == other.read_bytes()


def test_paths_that_cannot_be_written(tmp_path):
    with pytest.raises(StudyError, match=r"a figure ends in .svg or .png, not in '.pdf'"):
        behaviour(WHOLE, tmp_path / "f.pdf", title="t")
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"):
        behaviours([WHOLE], tmp_path / "file" / "f.png", title="t")


def test_summaries_of_equal_rows_have_no_width():
    low, mean, high = summaries([[1.0, 2.0]] * 3)
    assert np.array_equal(low, mean)
    assert np.array_equal(mean, high)
