"""Planning by formulas: by hand, against statsmodels and scipy, and the command; the simulator's studies."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from simulated_studies import Truth, simulate
from statsmodels.stats import inter_rater
from statsmodels.stats.proportion import power_ztost_prop
from verdicts_by_hand import listed

from analysis.evidence import Context, Evidence
from analysis.planning.command import find_most_demanding_criterion, plan_study, power, read_pilot
from analysis.planning.formulas import Design, compute_power, find_items_needed
from analysis.stats.agreement import intraclass_correlation
from analysis.stats.equivalence import compute_conservative_standard_error, run_two_one_sided_tests
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError
from guard_eval.reporting.words import format_limits
from guard_eval.study.test_plan import TestPlan

PAPER = Design(share=0.55, ties=0.32, icc=0.41)


def test_items_follow_hand_arithmetic():
    # One rater, 32 % ties, 55 %: a score's mean is .1 and its mean square .68. Half a step is 1/.05 items.
    by_hand = (1.959964 * 0.68**0.5 + 0.841621 * 0.67**0.5) ** 2 / 0.01 + 1 / 0.05
    assert find_items_needed(PAPER, 1) == math.ceil(by_hand) == 552
    # The mean of five at ICC .41 varies by .67 (1 + 4 · .41) / 5 = .35376.
    by_hand = (1.959964 * 0.36376**0.5 + 0.841621 * 0.35376**0.5) ** 2 / 0.01 + 1 / (5 * 0.05)
    assert find_items_needed(PAPER, 5) == math.ceil(by_hand) == 288


@pytest.mark.parametrize(("share", "ties"), [(0.6, 0.0), (0.7, 0.3), (0.8, 0.0), (0.95, 0.1)])
def test_planned_items_give_the_exact_sign_test_its_power(share, ties):
    """Against the binomial sums of one rater's wins among wins and losses."""
    items = find_items_needed(Design(share=share, ties=ties), 1)
    power = 0.0
    for untied in range(items + 1):
        wins = np.arange(untied + 1)
        p_values = 2 * stats.binom.sf(np.maximum(wins, untied - wins) - 1, untied, 0.5)
        chances = stats.binom.pmf(wins, untied, (share - ties / 2) / (1 - ties))
        power += stats.binom.pmf(untied, items, 1 - ties) * chances[p_values <= 0.05].sum()
    assert power >= 0.8


def test_planned_equivalence_holds_with_few_ratings_off_a_tie():
    """With 90 % ties, few of the ratings tell how much a rating varies."""
    items = find_items_needed(Design(margin=0.1, ties=0.9), 1)
    claims = 0
    for wins, ties, losses in np.random.default_rng(1).multinomial(items, [0.05, 0.9, 0.05], 2000).tolist():
        net, off = wins - losses, wins + losses
        error = math.sqrt((off / items - (net / items) ** 2) / 4 / (items - 1))
        scores = np.repeat([1, 0, -1], [wins, ties, losses])
        error = compute_conservative_standard_error(error, scores, items, margin=0.1)
        p = run_two_one_sided_tests(0.5 + net / items / 2, error, items - 1, margin=0.1)
        claims += p is not None and p <= 0.05
    assert claims / 2000 >= 0.78


def test_equivalence_items_agree_with_statsmodels():
    # Shares of 1, ½ and 0 with 32 % ties vary by .68/4: .17 ((1.645 + 1.282)/.1)² items.
    by_hand = 0.17 * ((stats.norm.ppf(0.95) + stats.norm.ppf(0.9)) / 0.1) ** 2
    assert find_items_needed(Design(margin=0.1), 1) == math.ceil(by_hand) + 1  # t instead of normal
    by_hand = 0.17 * (2 * stats.norm.ppf(0.95) / 0.1) ** 2
    assert find_items_needed(Design(margin=0.1, power=0.9), 1) == math.ceil(by_hand) + 1
    for items in (300, 900):
        oracle = power_ztost_prop(0.45, 0.55, items, 0.5, alpha=0.05, discrete=False)[0]
        ours = compute_power(Design(margin=0.05, ties=0, icc=0), items, 1)
        assert ours == pytest.approx(float(oracle), abs=0.015)  # normal
    assert compute_power(Design(margin=0.1), 3, 1) == 0.0


def test_power_for_other_raters_is_limited_by_their_number():
    """Against t tests on drawn raters' own shares."""
    drawn = 0.6 + 0.1 * np.random.default_rng(1).standard_normal((40_000, 8))
    design = Design(share=0.6, icc=0.6, rater_sd=0.1)
    for raters in (3, 8):
        p_values = stats.ttest_1samp(drawn[:, :raters], 0.5, axis=1).pvalue
        assert compute_power(design, 1_000_000, raters) == pytest.approx((p_values < 0.05).mean(), abs=0.01)
    assert find_items_needed(design, 3) is None
    assert compute_power(design, 50, 20) <= compute_power(Design(share=0.6, icc=0.6), 50, 20)


def test_judge_assisted_items_follow_hand_arithmetic():
    # r = .6, 150 of 1000: worth 150 / (1 − .36 · .85); two units more have the variance of people alone.
    design = Design(share=0.55, ties=0, icc=0, judge_r=0.6)
    worth = 150 / (1 - 0.36 * 0.85)
    variance = 0.55 * 0.45 * (150 / worth + 2 / 150) / 152
    p = stats.nct.sf(stats.t.isf(0.025, 149), 149, 0.05 / variance**0.5)
    assert compute_power(design, 150, 1) == pytest.approx(p, rel=1e-9)
    assert find_items_needed(Design(share=0.51, judge_r=0.6), 1) is None  # more than the judge judges
    saved = [find_items_needed(Design(judge_r=r), 3) for r in (0, 0.4, 0.7, 0.9)]
    assert saved == sorted(saved, reverse=True)


@pytest.mark.parametrize(
    "truth",
    [
        Truth(share=0.8, ties=0.1, kappa=0.7),
        Truth(rater_sd=0.5),
        Truth(share=0.55, kappa=0.3, model="dirichlet"),
    ],
)
def test_large_simulated_study_has_the_declared_truth(truth):
    draws = (4000, 10) if truth.rater_sd else (1, 40_000)
    drawn = simulate(truth, studies=draws[0], items=draws[1], raters=4, rng=np.random.default_rng(1))
    verdicts = drawn.reshape(-1, 4)
    counts = np.stack([(verdicts == choice).sum(axis=1) for choice in (1, 0, -1)], axis=1)
    assert (1 + verdicts.mean()) / 2 == pytest.approx(truth.share, abs=0.01)
    assert (verdicts == 0).mean() == pytest.approx(truth.ties, abs=0.01)
    if not truth.rater_sd:
        assert inter_rater.fleiss_kappa(counts) == pytest.approx(truth.kappa, abs=0.015)
        assert np.corrcoef(verdicts[:, 0], verdicts[:, 1])[0, 1] == pytest.approx(truth.icc, abs=0.02)


def find_pilot(verdicts, **context):
    return find_most_demanding_criterion(
        Evidence.from_verdicts(check_verdicts(verdicts), Context(name="s", **context))
    )


def verdicts_of(rows):
    return listed("pair_id rater criterion verdict rater_kind", rows, method_a="guard", method_b="acs")


def test_pilot_follows_hand_arithmetic():
    # Scores 1 1 | 0 0 | −1 1 | 0 1 have means 1, 0, 0, ½ around 3/8: between 2 · .6875/3 = 11/24, within
    # (2 + .5)/4 = 5/8, so ICC(1) = (11/24 − 15/24)/(11/24 + 15/24) = −2/13, which is planned as 0.
    answers = {"Ada": ("guard", "tie", "acs", "tie"), "Bob": ("guard", "tie", "guard", "guard")}
    rows = [
        (f"p{pair}", who, "fluency", verdict, "person")
        for who, verdicts in answers.items()
        for pair, verdict in enumerate(verdicts)
    ]
    pilot = find_pilot(verdicts_of([*rows, ("p1", "gpt", "coherence", "tie", "model")]))
    assert (pilot.ties, pilot.icc, pilot.results) == (0.375, 0.0, 1)
    assert "fluency, guard against acs: 38\u00a0% ties" in pilot.line
    icc = intraclass_correlation(np.repeat(np.arange(4), 2), [1, 1, 0, 0, -1, 1, 0, 1], np.arange(4))
    assert f", ICC 0.00 ({format_limits(icc)}); " in pilot.line
    assert pilot.line.endswith("4\u00a0pairs, 2\u00a0raters")


@pytest.mark.parametrize(
    ("declared", "results"),
    [({}, 2), ({"plan": TestPlan(composite={"c": 1, "d": 1})}, 3), ({"by": ("genre",)}, 4)],
)
def test_pilot_counts_all_tests_of_the_correction(declared, results):
    rows = [(f"p{n}", "Ada", criterion, "guard", "person") for n in range(4) for criterion in "cd"]
    assert find_pilot(verdicts_of(rows), **declared).results == results


def test_pilot_with_one_rating_a_pair_has_the_default_icc(tmp_path):
    path = tmp_path / "pilot.csv"
    verdicts_of([(f"p{n}", "Ada", "c", "tie", "person") for n in range(4)]).to_csv(path)
    planned = power(from_=path, ties=0.5)
    assert planned.design.icc == Design().icc
    assert "no item was rated twice, so the plan uses --icc or its default" in planned.lines[0]
    with pytest.raises(StudyError, match=r"--ties 1 is not possible.* below 0.9.*The pilot: .* 100.% ties"):
        power(from_=path)


def test_pilot_and_report_read_the_same_verdicts(tmp_path):
    """Two pairs of a table whose columns and words report.toml declares: 2 of 4 ratings are ties."""
    rows = ["item,one,other,who,better", "1,guard,acs,ann,L", "1,guard,acs,bob,L"]
    (tmp_path / "pilot.csv").write_text("\n".join([*rows, "2,guard,acs,ann,E", "2,guard,acs,bob,E"]))
    declared = {
        "pair_id": "item",
        "method_a": "one",
        "method_b": "other",
        "rater": "who",
        "verdict": "better",
    }
    columns = "\n".join(f'{role} = "{heading}"' for role, heading in declared.items())
    words = '[verdicts]\nL = "a"\nE = "tie"\n'
    (tmp_path / "report.toml").write_text(f'rater_kind = "person"\n[columns]\n{columns}\n{words}')
    assert read_pilot(tmp_path / "pilot.csv").ties == 0.5
    (tmp_path / "report.toml").write_text(f'rater_kind = "person"\n{words}')
    overrides = [f"columns.{role}={heading}" for role, heading in declared.items()]
    assert read_pilot(tmp_path / "pilot.csv", overrides).ties == 0.5


def test_most_demanding_criterion_has_few_ties():
    answers = [("p1", "fluency", "tie"), ("p2", "fluency", "acs")]
    answers += [("p1", "coherence", "guard"), ("p2", "coherence", "acs")]
    pilot = find_pilot(verdicts_of([(pair, "Ada", *answer, "person") for pair, *answer in answers]))
    assert pilot.line.startswith("coherence")
    assert "no item was rated twice" in pilot.line
    assert pilot.icc is None
    with pytest.raises(StudyError, match="simulated"):
        find_pilot(verdicts_of([("p1", "Bot", "fluency", "guard", "simulated")]))


@pytest.mark.parametrize(("ties", "chosen"), [(3, "coherence"), (5, "fluency")])
def test_criterion_with_agreeing_raters_is_more_demanding(ties, chosen):
    """By hand: (1 − ties) · (1 + 4 ICC) is 1/4 · 5 or 1/6 · 5 on coherence, and 1 on fluency."""
    words = ["guard", *["tie"] * ties]
    agreed = [(f"p{n}", who, "coherence", word) for n, word in enumerate(words) for who in ("Ada", "Bob")]
    alone = [(f"p{n}", "Ada", "fluency", "guard") for n in range(len(words))]
    pilot = find_pilot(verdicts_of([(*row, "person") for row in (*agreed, *alone)]))
    assert pilot.line.startswith(chosen)


def test_pilot_weighs_comparisons_by_their_pairs():
    words = {"xy": ["x", "y"] * 30, "xz": ["x", "z"] * 10}
    rows = [
        (f"{couple}{n}", couple[0], couple[1], who, word, "person")
        for couple, verdicts in words.items()
        for n, word in enumerate(verdicts)
        for who in ("Ada", "Bob")
    ]
    # ICC(1) is 1 where both agree (60 pairs) and −1 where Bob says the opposite (20): 40/80 in all.
    rows = [
        (pair, a, b, who, ({"x": "z", "z": "x"}[word] if (b, who) == ("z", "Bob") else word), kind)
        for pair, a, b, who, word, kind in rows
    ]
    pilot = find_pilot(listed("pair_id method_a method_b rater verdict rater_kind", rows))
    assert pilot.icc == pytest.approx(0.5, abs=0.02)
    assert pilot.results == 2
    assert "(the mean of 2, by their pairs)" in pilot.line
    assert "2 comparisons" in pilot.line


def test_power_from_three_methods_corrects_for_comparisons(tmp_path):
    """Holm's least level of three comparisons on one criterion is .05/3."""
    couples = [("x", "y"), ("x", "z"), ("y", "z")]
    rows = [(f"{a}{b}{n}", a, b, "Ada", (a, b)[n % 2]) for a, b in couples for n in range(8)]
    path = tmp_path / "pilot.csv"
    listed("pair_id method_a method_b rater verdict", rows).to_csv(path, index=False)
    planned = power(from_=path, share=0.6, icc=0.5, raters="2").design
    assert planned.results == 3
    assert planned.error_rate == pytest.approx(0.05 / 3)


def test_plan_table_answer_and_numbers_agree():
    plan = plan_study(Design(icc=0.41, results=2, judge_r=0.6), raters=(1, 3), items=(100, 200))
    first, second = plan.needs
    assert (first.verdicts, second.verdicts) == (first.items * 2, second.items * 6)
    assert second.items < second.without
    row = dict(zip(plan.tables[0].columns, plan.tables[0].rows[1], strict=True))
    assert (row["Raters"], row["Items"]) == (3, second.items)
    assert (row["Without the judge"], row["100 items"]) == (
        second.without,
        f"{100 * plan.curve[3][100]:.0f}",
    )
    assert f"with 3\u00a0raters each, {second.items} items" in plan.lines[0]
    few = plan_study(Design(share=0.6, rater_sd=0.1), raters=(3, 20))
    assert "with 3\u00a0raters each, 1,000,000 items are not enough" in few.lines[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"share": 0.9, "ties": 0.3}, "below 0.2"),
        ({"margin": 0.1, "ties": 1.0}, "--ties 1 is .*below 1"),
        ({"icc": 1.5}, "an ICC from 0"),
        ({"power": 0.01}, "above α"),
        ({"raters": "two"}, "--raters 'two'"),
        ({"raters": "0,3"}, "--raters 0"),
        ({"items": "-4"}, "--items -4"),
        ({"rater_sd": 0.05, "raters": "2,5"}, "at least 3 are needed"),
        # own shares vary by no more than (1 − .9) (.68/4 − .05²)
        ({"rater_sd": 0.45, "icc": 0.9}, "--rater-sd 0.45 is .*up to 0.129"),
        ({"margin": 0.5}, "below 0.5"),
        ({"margin": 0.1, "judge_r": 0.5}, "Give only one of these options"),
        ({"judge_r": 1.2}, "--judge-r 1.2"),
        ({"output": "curve.doc"}, "must end in .svg"),
        ({"from_": "nowhere.csv"}, "cannot read"),
        ({"from_": "."}, "there is no study"),
    ],
)
def test_impossible_plan_is_refused(tmp_path, options, says):
    paths = {name: tmp_path / options[name] for name in ("output", "from_") if name in options}
    with pytest.raises(StudyError, match=says):
        power(**(options | paths))


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_figure_of_power_replaces_only_an_earlier_one(tmp_path, ending):
    path = tmp_path / f"power.{ending}"
    power(output=path)
    first = path.read_bytes()
    power(output=path, share=0.6)
    assert path.read_bytes() != first
    figure = Figure()
    figure.suptitle("A diagram of guard-eval")
    figure.savefig(path, metadata={"Title": "guard-eval"})
    others = path.read_bytes()
    with pytest.raises(StudyError, match=f"power.{ending} exists, and is no earlier result"):
        power(output=path)
    assert path.read_bytes() == others
