"""Figures of metrics: what is drawn is what was measured, names stay text, and the bytes stay the same."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from guard_eval.errors import StudyError
from guard_eval.metrics import score_figures
from guard_eval.metrics.score_figures import intervals, plane
from guard_eval.metrics.scores import Results, Score
from guard_eval.reporting import drawing
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
    """The axes of the figures that were finished."""
    kept, plain = [], drawing.finished

    def finished(figure, axes, **options):
        kept.append(axes)
        return plain(figure, axes, **options)

    monkeypatch.setattr(drawing, "finished", finished)
    monkeypatch.setattr(score_figures, "finished", finished)
    return kept


def texts(figure):
    """All text elements of a figure's SVG."""
    elements = ET.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()).strip() for element in elements]


def marks(axes, marker):
    """Where single markers of a kind stand."""
    lines = [line for line in axes.get_lines() if line.get_marker() == marker and len(line.get_xdata()) == 1]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]


def draw_plane(found, **options):
    return plane(found, dataset="wikitext", name="plane", **options)


def draw_intervals(found, metric="diversity"):
    return intervals(found, metric, dataset="wikitext", name="intervals")


both = pytest.mark.parametrize("draw", [draw_plane, draw_intervals])


@both
def test_the_same_bytes_again(draw):
    assert draw(results()) == draw(results())


@both
def test_names_are_text(draw):
    result = "\n".join(texts(draw(results(dict.fromkeys(HOSTILE, (90.0, -2.0))))))
    assert not [name for name in HOSTILE if one_line(name) not in result]


def test_the_title_and_description_say_it_in_words():
    assert plane(results(), dataset="wiki & text", name="none") is None
    figure = draw_plane(results({"<b>": (90.0, -2.0)}))
    assert figure.title == "Diversity and Coherence · wikitext"
    assert "<b>: 90.00, −2.00" in figure.description
    assert "95 % intervals" in figure.description


def test_the_plane_shows_what_was_measured(drawn):
    figure = draw_plane(results())
    [axes] = drawn
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
    result = texts(figure)
    for number, (name, (x, y)) in enumerate(STRATEGIES.items(), start=1):
        assert f"{number}  {name}: {x:.2f}, {y:.2f}".replace("-", "−") in result
        assert str(number) in result  # beside its point
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Diversity (%)", "Coherence (nats)")


def test_the_plane_without_people_and_with_missing_values(drawn):
    values = {"guard": (92.0, -1.6), "acs(q=1)": (91.0, None), "greedy": (math.nan, -0.5)}
    figure = draw_plane(results(values, people=None))
    assert (marks(drawn[0], "o"), marks(drawn[0], "D")) == ([(92.0, -1.6)], [])
    assert {"acs(q=1): 91.00, no value", "greedy: no value, −0.50"} <= set(texts(figure))


def test_a_score_without_interval_is_a_point_without_cross(drawn):
    bare = [replace(score, low=None, high=None) for score in results().scores]
    figure = draw_plane(Results(scores=tuple(bare)))
    assert len(marks(drawn[0], "o")) == 15
    lines = drawn[0].get_lines()
    assert not [line for line in lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
    assert "No intervals; 1314 texts per strategy" in texts(figure)


def test_intervals_are_sorted_and_drawn_at_their_limits(drawn):
    figure = draw_intervals(results())
    [axes] = drawn
    everyone = sorted((x for x, _ in [*STRATEGIES.values(), PEOPLE]), reverse=True)
    places = sorted([*marks(axes, "o"), *marks(axes, "D")], key=lambda mark: mark[1])
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # from the top downwards
    assert [x for x, _ in places] == everyone
    assert marks(axes, "D")[0][0] == PEOPLE[0]
    ends = {tuple(line.get_xdata()) for line in axes.get_lines() if line.get_marker() == "|"}
    assert ends == {(x - 1, x + 1) for x in everyone}
    (guide,) = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert list(guide.get_xdata()) == [PEOPLE[0]] * 2
    result = " ".join(texts(figure))
    assert "92.90 [91.90, 93.90]" in result
    assert "guard(formulation=released, select=sample)" in result
    assert "human (the references)" in result


def test_a_strategy_without_value_says_so_in_words(drawn):
    values = {"guard": (92.0, -1.6), "acs(q=1)": (91.0, None), "greedy": (90.0, math.inf)}
    figure = draw_intervals(results(values), "coherence")
    assert marks(drawn[0], "o") == [(-1.6, 0)]
    assert {"no value: nothing could be scored", "no value", "acs(q=1)", "greedy"} <= set(texts(figure))


@pytest.mark.parametrize("values", [{}, {"guard": (None, None)}, {"guard": (math.nan, math.inf)}])
@both
def test_nothing_to_show_is_no_figure(draw, values):
    assert draw(results(values)) is None


def test_unknown_metrics_are_named():
    with pytest.raises(StudyError, match="there is no metric 'divresity'; there are diversity, mauve"):
        draw_plane(results(), x="divresity")
