"""Planning: the fast p-values are the default test's, and sizes agree with known and published ones."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.planning import page as power_page
from analysis.planning.pilot import most_demanding, pilot_rows
from analysis.planning.power import plan
from analysis.planning.question import PlanningQuestion, check
from analysis.planning.simulated_power import (
    approximate_items,
    crossings,
    flip_p_values,
    power,
    size_error,
    smallest,
)
from analysis.planning.simulation import Design, simulate
from analysis.stats.sequential import log_e_values
from analysis.verdicts.tidy import validate
from guard_eval.errors import StudyError
from guard_eval.estimate import adjust, sign_flip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("raters", [1, 2, 3, 5])
def test_p_values_of_many_studies_are_those_of_the_default_test(raters):
    rng = np.random.default_rng(raters)
    for items in (1, 2, 7, 40, 150):
        net = rng.integers(-raters, raters + 1, (12, items)).astype(np.int8)
        net[0], net[1] = 0, raters  # balanced throughout, and all for one method
        alone = [sign_flip(study / raters).p for study in net]
        expected = [1.0 if p is None else p for p in alone]
        assert flip_p_values(net) == pytest.approx(expected, abs=1e-12)


def test_a_study_without_items_is_no_evidence():
    assert flip_p_values(np.zeros((2, 0), dtype=np.int8)).tolist() == [1, 1]


def test_power_counts_what_holm_rejects():
    rng = np.random.default_rng(4)
    net = np.clip(rng.integers(-3, 4, (40, 3, 30)) + (rng.random((40, 3, 1)) < 0.5), -3, 3).astype(np.int8)
    found = power(net, alpha=0.05)
    p_values = [[sign_flip(one / 3).p for one in study] for study in net]
    rejected = np.array([[p <= 0.05 for p in adjust(study)] for study in p_values])
    assert found.each == pytest.approx(rejected.mean())
    assert found.at_least_one == pytest.approx(rejected.any(axis=1).mean())
    assert found.all_of_them == pytest.approx(rejected.all(axis=1).mean())
    assert found.alone == pytest.approx((np.array(p_values) <= 0.05 / 3).mean())
    assert 0 < found.error < 0.1


def test_one_rater_without_ties_is_the_binomial():
    # Exact power of the two-sided binomial test of 60 % on 100 items: P(wins ≤ 39 or ≥ 61).
    design = Design(items=100, raters=1, share=0.6, ties=1e-6, agreement=0.4)
    net = simulate(design, studies=8000, rng=np.random.default_rng(1)).sum(axis=3, dtype=np.int8)
    exact = stats.binom.cdf(39, 100, 0.6) + stats.binom.sf(60, 100, 0.6)
    found = power(net, alpha=0.05)
    assert abs(found.each - exact) < 4 * found.error
    assert found.error == pytest.approx((exact * (1 - exact) / 8000) ** 0.5, rel=0.05)


def test_crossings_are_where_the_e_process_first_reaches_the_line():
    rng = np.random.default_rng(6)
    net = np.clip(rng.integers(-3, 4, (60, 80)) + rng.integers(0, 2, (60, 1)), -3, 3).astype(np.int8)
    reached = log_e_values(net / 3) >= np.log(20)
    expected = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)
    assert 0 < (expected > 0).mean() < 1
    assert crossings(net, raters=3, alpha=0.05).tolist() == expected.tolist()


def test_the_normal_approximation_by_hand():
    # One rater, 32 % ties, 55 %: mean .1, mean square .68; n = (1.96 √.68 + .8416 √.67)² / .01 = 531.
    design = Design(items=1, raters=1, share=0.55, model="Dirichlet-multinomial")
    by_hand = (1.959964 * 0.68**0.5 + 0.841621 * 0.67**0.5) ** 2 / 0.01
    assert approximate_items(design, alpha=0.05, wanted=0.8) == pytest.approx(by_hand, rel=1e-4)
    # Five at κ = .41: their mean varies by .67 (1 + 4 · .41) / 5 = .35376.
    five = Design(items=1, raters=5, share=0.55, model="Dirichlet-multinomial")
    by_hand = (1.959964 * 0.36376**0.5 + 0.841621 * 0.35376**0.5) ** 2 / 0.01
    assert approximate_items(five, alpha=0.05, wanted=0.8) == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize("guess", [1, 30, 37, 38, 500])
def test_the_smallest_size_is_found_from_any_guess(guess):
    assert smallest(lambda items: items / 100, wanted=0.37, guess=guess, most=200) == 37
    assert smallest(lambda items: items / 100, wanted=0.37, guess=guess, most=36) is None
    assert smallest(lambda _: 1.0, wanted=0.8, guess=guess, most=200) == 1


def test_an_error_of_power_becomes_one_of_size():
    # Φ(c √n − 1.96) = .8 at n = 100 and Φ(c √n − 1.96) at 110: a slope by hand.
    c = (1.959964 + 0.841621) / 10
    slope = (stats.norm.cdf(c * 100.5**0.5 - 1.959964) - stats.norm.cdf(c * 99.5**0.5 - 1.959964)) / 1
    assert size_error(0.8, items=100, error=0.01, alpha=0.05) == pytest.approx(0.01 / slope, rel=1e-3)


@pytest.mark.parametrize(
    ("ties", "kappa", "published"),
    [(0.32, 0.41, 281), (0.67, 0.41, 135), (0.32, 0.04, 122), (0.67, 0.02, 54)],
)
def test_sizes_agree_with_published_ones(ties, kappa, published):
    """55 % against 50 % at 80 %, five raters; tie rates of the paper's two criteria.

    281 and 135 are for the paper's κ; 122 and 54 for a study whose raters agreed hardly more than by chance
    (the correlations that these numbers imply are .04 and .02). They come from the normal approximation with
    the items' own spread; the randomisation test, whose null distribution is wider by the square of the mean,
    needs up to a tenth more.
    """
    asked = PlanningQuestion(
        ties=ties, agreement=kappa, raters=(5,), items=(50,), studies=1000, model="Dirichlet-multinomial"
    )
    (need,) = plan(asked).needs
    assert need.error < 0.04 * need.items
    assert 0.94 * published < need.items < 1.12 * published + 2 * need.error


@pytest.fixture(scope="module")
def small():
    return plan(
        PlanningQuestion(share=0.7, criteria=2, raters=(1, 3), items=(10, 20, 40), studies=600, seed=3)
    )


def test_the_plan_hangs_together(small):
    each = {(cell.items, cell.raters): cell.power.each for cell in small.cells}
    assert each[10, 1] < each[20, 1] < each[40, 1]
    assert each[20, 1] < each[20, 3]
    for cell in small.cells:
        assert cell.verdicts == cell.items * cell.raters * 2
        assert cell.power.all_of_them <= cell.power.each <= cell.power.at_least_one
        assert cell.power.alone <= cell.power.each
    one, three = small.needs
    assert one.items > three.items
    assert one.verdicts == one.items * 2
    for need in small.needs:
        assert need.power.each >= 0.8
        assert need.items <= need.alone
        assert need.items < need.sequential.most
        assert need.sequential.mean < need.sequential.most


def test_under_the_other_model_further_raters_help_less():
    hopeful = plan(PlanningQuestion(raters=(5,), items=(100,), studies=800, model="Dirichlet-multinomial"))
    (need,) = hopeful.needs
    assert need.other_model > 1.2 * need.items
    # Whichever model is asked for, the answer is the larger number, and the smaller one stands after it.
    text = power_page.answer(hopeful)
    assert f"takes {need.other_model} items with 5\u00a0raters each." in text
    assert text.index(str(need.other_model)) < text.index(f"the other takes {need.items}.")


def test_the_answer_is_the_cautious_one_by_default():
    """The number answered has the power asked for under both models, but for Monte-Carlo error."""
    found = plan(PlanningQuestion(raters=(5,), items=(100,), studies=800))
    (need,) = found.needs
    assert found.question.model == "latent normal"
    assert need.cautious == need.items > 1.2 * need.other_model
    assert f"takes {need.items} items with 5\u00a0raters each." in power_page.answer(found)


def test_the_seed_decides(small):
    again = plan(
        PlanningQuestion(share=0.7, criteria=2, raters=(1, 3), items=(10, 20, 40), studies=600, seed=3)
    )
    assert power_page.as_json(again) == power_page.as_json(small)
    other = plan(
        PlanningQuestion(share=0.7, criteria=2, raters=(1, 3), items=(10, 20, 40), studies=600, seed=4)
    )
    assert other.cells != small.cells


def test_the_page_is_self_contained_and_the_same_every_time(small, tmp_path):
    for name in ("a.html", "b.html"):
        power_page.write(small, tmp_path / name, facts={"guard-eval": "<1>"})
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "b.html").read_text(encoding="utf-8")
    assert "&lt;1&gt;" in page
    assert "prefers-color-scheme: dark" in page
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in page
    assert 'role="img"' in page
    for reference in ("src=", "<link", "<script", "url(http"):
        assert reference not in page
    assert str(small.needs[0].items) in page


def test_json_holds_every_number(small):
    made = json.loads(power_page.as_json(small))
    assert made["needs"][1]["items"] == small.needs[1].items
    assert made["cells"][0]["power"]["each"] == small.cells[0].power.each
    assert made["question"]["seed"] == 3


def test_few_studies_where_there_are_many_items(monkeypatch):
    monkeypatch.setattr("analysis.planning.power.MOST_RATINGS", 400_000)
    thorough = plan(PlanningQuestion(share=0.7, raters=(1,), items=(500,)))
    assert thorough.question.studies == 800
    assert "800 studies were simulated instead of 4000" in thorough.notes[0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"share": 0.5}, "cannot be planned for"),
        ({"share": 1.2}, "cannot be planned for"),
        ({"share": 0.9, "ties": 0.3}, "between 0 and below 0.2"),
        ({"ties": -0.1}, "do not go with"),
        ({"agreement": -0.2}, "take 0"),
        ({"agreement": 1.0}, "below 1"),
        ({"raters": ()}, "0 raters"),
        ({"raters": (0, 3)}, "0 raters"),
        ({"items": (-5,)}, "-5 items"),
        ({"criteria": 0}, "0 criteria"),
        ({"alpha": 0.7}, "error rate"),
        ({"wanted": 1.0}, "up to 0.99"),
        ({"wanted": 0.01}, "above α"),
        ({"correlation": 2}, "from 0 to 1"),
        ({"studies": 3}, "3 studies"),
        ({"seed": -1}, "seed"),
    ],
)
def test_questions_that_cannot_be(changes, says):
    with pytest.raises(StudyError, match=says):
        check(PlanningQuestion(**changes))


def test_a_difference_too_small_to_simulate_is_refused():
    with pytest.raises(StudyError, match="larger difference"):
        plan(PlanningQuestion(share=0.501))


def verdicts(rows):
    columns = ["pair_id", "rater", "criterion", "verdict", "rater_kind"]
    frame = [
        {"dataset": "d", "method_a": "guard", "method_b": "acs", **dict(zip(columns, row, strict=True))}
        for row in rows
    ]
    return validate(pd.DataFrame(frame))


def test_a_pilot_by_hand():
    # fluency: guard guard | tie tie | acs guard | tie guard: 3 of 8 tie; agreeing pairs 2 of 4;
    # chance (4² + 3² + 1²) / 64 = 26/64; κ = (.5 − .40625) / (1 − .40625) = 3/19.
    by_pair = {"p1": ("guard", "guard"), "p2": ("tie", "tie"), "p3": ("acs", "guard"), "p4": ("tie", "guard")}
    rows = [
        (pair, who, "fluency", verdict, "person")
        for pair, both in by_pair.items()
        for who, verdict in zip(("Ada", "Bob"), both, strict=True)
    ]
    rows += [(f"p{n}", "gpt", "coherence", "tie", "model") for n in range(1, 5)]
    (row,) = pilot_rows(verdicts(rows))
    assert (row.criterion, row.items, row.raters, row.ties) == ("fluency", 4, 2, 0.375)
    assert row.kappa.value == pytest.approx(3 / 19)
    assert most_demanding((row,), agreement=0.4) is row


def test_a_pilot_of_simulations_is_refused():
    with pytest.raises(StudyError, match="simulated"):
        pilot_rows(verdicts([("p1", "Bot", "fluency", "guard", "simulated")]))


def test_the_most_demanding_criterion_has_few_ties_and_agreement():
    rows = [("p1", "Ada", "fluency", "tie", "person"), ("p2", "Ada", "fluency", "acs", "person")]
    rows += [("p1", "Ada", "coherence", "guard", "person"), ("p2", "Ada", "coherence", "acs", "person")]
    found = pilot_rows(verdicts(rows))
    assert [row.kappa.note for row in found] == ["no item was rated twice"] * 2
    assert most_demanding(found, agreement=0.4).criterion == "coherence"
