"""Figures of metrics: what is drawn is what was measured, names stay text, and the bytes stay the same."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from guard_eval.errors import StudyError
from guard_eval.metrics.figures import scores
from guard_eval.metrics.figures.scores import intervals, plane
from guard_eval.metrics.scores import Results, Score
from guard_eval.reporting.escaping import one_line
from guard_eval.texts.generations import HUMAN

pytestmark = pytest.mark.slow

STRATEGIES = {
    "greedy": (18.2, -0.62),
    "beam(beams=5)": (21.5, -0.55),
    "temperature(tau=0.9)": (94.1, -3.3),
    "top_k(k=50)": (93.2, -2.9),
    "top_p(p=0.95)": (94.4, -3.2),
    "typical(tau=0.2)": (90.8, -2.6),
    "min_p(p=0.1)": (91.9, -2.4),
    "contrastive_decoding(alpha=0.1, amateur_tau=0.5, beams=5)": (80.3, -1.4),
    "adaptive(epsilon=0.001)": (88.4, -1.9),
    "contrastive(k=5, alpha=0.6)": (86.9, -1.35),
    "contrastive(k=10, alpha=0.6)": (89.4, -1.56),
    "acs(q=1)": (92.4, -1.8),
    "acs(q=8)": (92.1, -1.75),
    "guard": (92.9, -1.62),
    "guard(formulation=released, select=sample)": (93.4, -1.7),
}
PEOPLE = (92.98, -2.81)
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


def results(values=STRATEGIES, people=PEOPLE):
    """Scores of diversity, ± 1, and coherence, ± 0.1."""
    rows = ({HUMAN: people} if people else {}) | values
    return Results(
        scores=tuple(
            Score(
                metric=metric,
                dataset="wikitext",
                strategy=name,
                value=value,
                low=None if value is None else value - half,
                high=None if value is None else value + half,
                n=1314,
                note="nothing could be scored" if value is None else "",
            )
            for name, pair in rows.items()
            for metric, value, half in zip(("diversity", "coherence"), pair, (1.0, 0.1), strict=True)
        )
    )


@pytest.fixture
def drawn(monkeypatch):
    """The matplotlib figures that were saved."""
    kept = []
    save = scores.save
    monkeypatch.setattr(scores, "save", lambda figure, *more: (kept.append(figure), save(figure, *more)))
    return kept


def texts(path):
    """All text elements of an SVG."""
    return ["".join(e.itertext()).strip() for e in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def marks(axes, marker):
    """Where single markers of a kind stand."""
    lines = [line for line in axes.get_lines() if line.get_marker() == marker and len(line.get_xdata()) == 1]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]


DRAW = [
    lambda found, path: plane(found, dataset="wikitext", path=path),
    lambda found, path: intervals(found, "diversity", dataset="wikitext", path=path),
]
both = pytest.mark.parametrize("draw", DRAW, ids=["plane", "intervals"])


@both
def test_svg_and_png_and_the_same_bytes_again(draw, tmp_path):
    for ending in ("svg", "png"):
        one, other = tmp_path / f"one.{ending}", tmp_path / "folder" / f"other.{ending}"
        assert draw(results(), one)
        assert draw(results(), other)
        assert one.read_bytes() == other.read_bytes()
    assert imread(tmp_path / "one.png").shape[1] == 1600  # twice 800
    assert ET.parse(tmp_path / "one.svg").getroot().get("role") == "img"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "one.png", "one.svg"]


@both
def test_text_can_be_read_and_stays_inside(draw, tmp_path, drawn):
    draw(results(STRATEGIES | {"W" * 500: (50.0, None), "表" * 300: (None, -2.0)}), tmp_path / "f.svg")
    figure = drawn[0]
    frame = figure.bbox
    shown = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    unseen = {tick.label1 for tick in figure.axes[0].xaxis.get_major_ticks()}  # some lie outside the axes
    shown = [text for text in shown if text not in unseen]
    assert len(shown) > 30
    for text in shown:
        assert text.get_fontsize() >= 9
        with scores.drawing():
            box = text.get_window_extent()
        assert frame.x0 <= box.x0, text
        assert box.x1 <= frame.x1 + 1, text
        assert frame.y0 <= box.y0, text
        assert box.y1 <= frame.y1, text


@both
@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(draw, name, tmp_path):
    path = tmp_path / "f.svg"
    assert draw(results({name: (90.0, -2.0)}), path)
    assert one_line(name) in texts(path)
    assert draw(results({name: (90.0, -2.0)}), tmp_path / "f.png")


def test_the_title_and_description_say_it_in_words(tmp_path):
    plane(results({"<b>": (90.0, -2.0)}), dataset="wiki & text", path=tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
    plane(results({"<b>": (90.0, -2.0)}), dataset="wikitext", path=tmp_path / "f.svg")
    root = ET.parse(tmp_path / "f.svg").getroot()
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert root[0].text == "Diversity and Coherence · wikitext"
    assert "<b>: 90.00, −2.00" in root[1].text
    assert "95 % intervals" in root[1].text


def test_the_plane_shows_what_was_measured(tmp_path, drawn):
    path = tmp_path / "f.svg"
    assert plane(results(), dataset="wikitext", path=path)
    axes = drawn[0].axes[0]
    assert marks(axes, "o") == list(STRATEGIES.values())
    assert marks(axes, "D") == [PEOPLE]
    crosses = {
        (tuple(line.get_xdata()), tuple(line.get_ydata()))
        for line in axes.get_lines()
        if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"
    }
    assert crosses == {
        cross
        for x, y in [*STRATEGIES.values(), PEOPLE]
        for cross in (((x - 1, x + 1), (y, y)), ((x, x), (y - 0.1, y + 0.1)))
    }
    guides = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert [guides[0].get_xdata()[0], guides[1].get_ydata()[0]] == list(PEOPLE)
    found = texts(path)
    for number, (name, (x, y)) in enumerate(STRATEGIES.items(), start=1):
        place = found.index(name)
        # the row of the table: number, name and values; and the number once more beside its point
        row = [str(number), name, f"{x:.2f}", f"{y:.2f}".replace("-", "−")]
        assert found[place - 1 : place + 3] == row
        assert found.count(str(number)) >= 2
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Diversity (%)", "Coherence (nats)")


def test_the_plane_without_people_and_with_missing_values(tmp_path, drawn):
    values = {"guard": (92.0, -1.6), "acs(q=1)": (91.0, None), "greedy": (math.nan, -0.5)}
    assert plane(results(values, people=None), dataset="wikitext", path=tmp_path / "f.svg")
    axes = drawn[0].axes[0]
    assert marks(axes, "o") == [(92.0, -1.6)]
    assert marks(axes, "D") == []
    found = texts(tmp_path / "f.svg")
    assert found.count("no value") == 2
    assert "acs(q=1)" in found
    assert "no value" in found[found.index("acs(q=1)") :][:3]


def test_the_axes_can_be_any_two_metrics(tmp_path, drawn):
    assert plane(results(), dataset="wikitext", path=tmp_path / "f.svg", x="coherence", y="diversity")
    assert marks(drawn[0].axes[0], "D") == [PEOPLE[::-1]]


def test_a_score_without_interval_is_a_point_without_cross(tmp_path, drawn):
    bare = [replace(score, low=None, high=None) for score in results().scores]
    assert plane(Results(scores=tuple(bare)), dataset="wikitext", path=tmp_path / "f.svg")
    assert len(marks(drawn[0].axes[0], "o")) == 15
    assert not [line for line in drawn[0].axes[0].get_lines() if line.get_linestyle() == "-" and
                len(line.get_xdata()) == 2]  # fmt: skip
    assert "No intervals; 1314 texts per strategy" in texts(tmp_path / "f.svg")


def test_intervals_are_sorted_and_drawn_at_their_limits(tmp_path, drawn):
    assert intervals(results(), "diversity", dataset="wikitext", path=tmp_path / "f.svg")
    axes = drawn[0].axes[0]
    everyone = sorted((x for x, _ in [*STRATEGIES.values(), PEOPLE]), reverse=True)
    places = sorted([*marks(axes, "o"), *marks(axes, "D")], key=lambda mark: mark[1])
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # from the top downwards
    assert [x for x, _ in places] == everyone
    assert marks(axes, "D")[0][0] == PEOPLE[0]
    ends = {tuple(line.get_xdata()) for line in axes.get_lines() if line.get_marker() == "|"}
    assert ends == {(x - 1, x + 1) for x in everyone}
    (guide,) = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert list(guide.get_xdata()) == [PEOPLE[0]] * 2
    found = texts(tmp_path / "f.svg")
    assert "92.90 [91.90, 93.90]" in found
    assert {"guard", "guard(formulation=released,", "select=sample)", "human (the references)"} <= set(found)


def test_a_strategy_without_value_says_so_in_words(tmp_path, drawn):
    values = {"guard": (92.0, -1.6), "acs(q=1)": (91.0, None), "greedy": (90.0, math.inf)}
    assert intervals(results(values), "coherence", dataset="wikitext", path=tmp_path / "f.svg")
    assert marks(drawn[0].axes[0], "o") == [
        (-1.6, pytest.approx(0.155))
    ]  # half of the first row's 0.31 inches
    found = texts(tmp_path / "f.svg")
    assert "no value: nothing could be scored" in found
    assert "no value" in found
    assert {"acs(q=1)", "greedy"} <= set(found)


@pytest.mark.parametrize("values", [{}, {"guard": (None, None)}, {"guard": (math.nan, math.inf)}])
def test_nothing_to_show_is_no_figure(values, tmp_path):
    for draw in DRAW:
        assert not draw(results(values), tmp_path / "f.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_without_scores_is_no_figure(tmp_path):
    assert not plane(results(), dataset="wikinews", path=tmp_path / "f.svg")
    assert not intervals(results(), "mauve", dataset="wikitext", path=tmp_path / "f.svg")


def test_unknown_metrics_are_named(tmp_path):
    with pytest.raises(StudyError, match="there is no metric 'divresity'; there are diversity, mauve"):
        plane(results(), dataset="wikitext", path=tmp_path / "f.svg", x="divresity")
    with pytest.raises(StudyError, match="there is no metric 'x'"):
        intervals(results(), "x", dataset="wikitext", path=tmp_path / "f.svg")


@both
def test_files_that_cannot_be_written(draw, tmp_path):
    few = results({"guard": (92.0, -1.6)})
    with pytest.raises(StudyError, match=r"f.jpg: a figure ends in .svg or .png, not in '.jpg'"):
        draw(few, tmp_path / "f.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"):
        draw(few, tmp_path / "file" / "f.svg")
