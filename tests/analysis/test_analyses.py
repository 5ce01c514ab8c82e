"""The analyses as data frames: against hand arithmetic, published figures and other programs."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from verdicts_by_hand import (
    COMPARED,
    as_table,
    drawn_verdicts,
    evidence,
    joined,
    listed,
    papers_people,
    table,
)

from analysis.evidence import ALL, AskedPrompt, CalibrationItem, JudgeUsage
from analysis.reports.first_screen import build_first_screen
from analysis.sections import ANALYSES
from analysis.sections.raters.judge_run import make_section as make_judge_run_section
from analysis.sections.raters.judges import make_section as make_judges_section
from analysis.sections.results.assisted import make_section as make_assisted_section
from analysis.sections.results.sensitivity import LEFT_OUT, POOLED, RANDOM, UNTIED
from analysis.sections.results.sensitivity import make_section as make_sensitivity_section
from analysis.sections.results.shares import format_p_or_reason, measure_total_shares
from analysis.sections.results.shares import measure_all_shares as all_shares
from analysis.stats.alternative_annotator import run_alternative_annotator_test
from analysis.stats.equal_length import UNFITTABLE, estimate_share_at_equal_length
from analysis.stats.equivalence import compute_conservative_standard_error, run_two_one_sided_tests
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError

NAMES = "agreement assisted audits coverage equivalence judges length position ranking raters sensitivity"
(
    agreement,
    assisted,
    audits,
    coverage,
    equivalence,
    judges,
    length,
    position,
    ranking,
    raters,
    sensitivity,
) = (as_table(ANALYSES[name]) for name in NAMES.split())
sequential = as_table(ANALYSES["sequential"])
shares = as_table(all_shares)


def rows(frame):
    return list(frame.itertuples(index=False))


def only(frame, **values):
    (row,) = [row for row in rows(frame) if values.items() <= row._asdict().items()]
    return row


def total(frame, **declared):
    """Return the one row of shares over all datasets."""
    return only(shares(evidence(frame, **declared)), dataset=ALL)


def test_report_gives_the_papers_shares_and_p_values():
    frame = shares(evidence(check_verdicts(papers_people()), planned=(("GUARD", "ACS", "coherence"),)))
    printed = {  # tab:humaneval_resultglacs
        "coherence": {"wikitext": 62.50, "wikinews": 60.00, "book": 51.25},
        "fluency": {"wikitext": 56.25, "wikinews": 54.75, "book": 47.50},
    }
    for criterion, by_dataset in printed.items():
        for dataset, share in by_dataset.items():
            row = only(frame, criterion=criterion, dataset=dataset)
            assert 100 * row.win_share_pooled == pytest.approx(share)
            assert 100 * row.win_share == pytest.approx(share)
    # The paper prints 58 and 53; its counts give 57.92 and 52.83.
    coherence, fluency = (only(frame, criterion=name, dataset=ALL) for name in ("coherence", "fluency"))
    assert 100 * coherence.win_share_pooled == pytest.approx(57.92, abs=0.005)
    assert 100 * fluency.win_share_pooled == pytest.approx(52.83, abs=0.005)
    assert coherence.p_pooled_binomial == pytest.approx(2.874966592398616e-06)
    assert fluency.p_pooled_binomial == pytest.approx(0.0181888, abs=5e-8)


def test_share_follows_hand_arithmetic():
    # Items 1, 1/2 and 0: mean 1/2, variance 1/4, error √(1/4/3). Three items exclude no share.
    row = total(table({"1": "xx", "2": "xy", "3": "yy"}))
    assert (row.wins, row.ties, row.losses) == (3, 0, 3)
    assert (row.win_share, row.low, row.high) == (0.5, 0, 1)
    assert row.standard_error == pytest.approx((1 / 12) ** 0.5)


def test_holm_counts_declared_tests_without_verdicts():
    better, level = (table(dict(enumerate(8 * word)), criterion=name) for word, name in ("xa", "-b"))
    frame = shares(evidence(joined(better, level), planned=(("x", "y", "a"), ("x", "y", "b"))))
    row = only(frame, criterion="a")
    assert (row.p, row.p_adjusted) == pytest.approx((2 / 256, 4 / 256))
    assert only(frame, criterion="b").p is None


def test_report_withholds_p_that_cannot_be_significant():
    row = total(table(dict(enumerate("xxxx"))))
    assert row.p is row.p_adjusted is row.p_pooled_binomial is None
    assert "p is at least 0.125" in row.note
    # Six pairs can give 2 / 2^6 = .031, and Holm doubles it: .063.
    two_criteria = joined(*(table(dict(enumerate("xxxxxx")), criterion=name) for name in "cd"))
    for row in rows(shares(evidence(two_criteria))):
        assert row.p_adjusted is None
        assert "no corrected p" in row.note
        assert "raters" not in row.note


def test_note_names_unequal_numbers_of_raters():
    assert "pairs have between 1 and 2 raters" in total(table({"1": "xx", "2": "xx", "3": "x"})).note


def test_note_warns_if_busy_raters_prefer_one_method():
    # Ten raters prefer x in 70 % of 30 pairs each, ten prefer y in all of 3: 210/330, and .35 by rater.
    many = {f"{n:03}": " " * (n // 30) + "xxxxxxxyyy"[n % 10] for n in range(300)}
    few = {f"{n}": " " * (n // 3 - 90) + "y" for n in range(300, 330)}
    assert "each rater the share is 35.0\u00a0%, outside" in total(table(many | few), raters="random").note
    assert "each rater" not in total(table(many), raters="random").note


@pytest.mark.parametrize("pairs", [1, 3])
def test_share_for_other_raters_is_never_surer_than_for_these(pairs):
    """All pairs have the same 28 of 40 raters for x, so the interval over pairs has no width."""
    row = total(table({f"{pair}": "x" * 28 + "y" * 12 for pair in range(pairs)}), raters="random")
    assert row.win_share == pytest.approx(0.7)
    assert row.low is row.high is row.standard_error is row.p is None


def test_audit_groups_criteria_with_the_same_verdicts():
    verdicts = "xxxxyyyyxxyyxxyyxxyyxxyyxxyyxxyy"
    other = verdicts[1:] + verdicts[:1]
    tables = [
        listed("pair_id verdict", [(str(n), side) for n, side in enumerate(words)], criterion=name)
        for name, words in (("a", verdicts), ("b", verdicts), ("c", "y" + verdicts[1:]), ("d", other))
    ]
    (row,) = [row for row in rows(audits(evidence(joined(*tables)))) if row.kind == "redundant criteria"]
    assert "a, b and c carry the same verdict on 31 of 32\u00a0showings" in row.what
    # c differs once from the 16 : 16 of the others: κ = (31/32 - 1/2) / (1 - 1/2).
    assert "κ\u00a0≥\u00a00.94" in row.what


def test_position_and_flips_follow_hand_arithmetic():
    seen = zip("112233", ["x", "y", "x", "x", "tie", "y"], "xyxyxy", "012345", strict=True)
    frame = listed("pair_id verdict shown_first presentation", list(seen))
    row = only(position(evidence(frame)))
    # For the first: pairs 1 (twice), 2 (once), 3 (once); for the second: pair 2 once.
    assert (row.first, row.second, row.ties, row.simulated) == (4, 1, 1, False)
    assert only(position(evidence(frame.assign(rater_kind="simulated")))).simulated
    assert (row.both_orders, row.flipped) == (3, 1)
    assert row.flip_rate == pytest.approx(1 / 3)


@pytest.mark.parametrize(("datasets", "per_unit"), [((60,), 1), ((60,), 2), ((40, 20), 2), ((59, 1), 1)])
def test_length_slope_agrees_with_bias_reduced_gee(datasets, per_unit):
    """A dataset with one pair is no coefficient."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=60), rng.choice([0, 0.5, 1.0], size=60)
    dataset, unit = np.repeat(np.arange(len(datasets)), datasets), np.arange(60) // per_unit
    share, slope = estimate_share_at_equal_length(y, x, dataset, unit)
    columns = [np.ones(60), x, dataset - dataset.mean()][: 3 if datasets == (40, 20) else 2]
    model = sm.GEE(y, np.column_stack(columns), groups=unit, cov_struct=sm.cov_struct.Independence())
    oracle = model.fit(cov_type="bias_reduced")
    assert (share.value, slope.value) == pytest.approx(tuple(oracle.params[:2]), abs=1e-9)
    assert (share.error, slope.error) == pytest.approx(tuple(oracle.bse[:2]), rel=1e-8)
    t = slope.value / slope.error
    assert slope.p == pytest.approx(2 * stats.t.sf(abs(t), 60 / per_unit - len(columns)), rel=1e-8)


@pytest.mark.parametrize(
    ("shares", "ratios", "datasets"),
    [
        ([1, 0], [0, 1], [0, 0]),  # too few units
        ([1, 0, 1, 0], [1, 1, 1, 1], [0] * 4),  # equal ratios
        ([1, 0, 1, 0, 1], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]),  # equal ratios within datasets
        ([0, 0.5, 1, 0.5], [0, 1, 2, 1], [0] * 4),  # all items on the line
        ([0, 0.5, 1, 0.5], [0, 0, 2, 0], [0] * 4),  # the line goes through the third item
    ],
)
def test_undefined_length_slope_gives_its_reason(shares, ratios, datasets):
    share, slope = estimate_share_at_equal_length(shares, ratios, datasets, np.arange(len(shares)))
    assert share.value is slope.value is None
    assert share.note == slope.note == UNFITTABLE


def test_share_at_equal_length_beyond_one_is_undefined():
    # Shares .9, .8, .8, .7 at ratios of 2, 3, 3, 4 lie about 1.1 − .1 x.
    share, slope = estimate_share_at_equal_length(
        [0.91, 0.8, 0.79, 0.7], [2, 3, 3, 4], np.zeros(4), np.arange(4)
    )
    assert (share.value, share.note) == (None, "the line predicts a share beyond 0 or 1 at equal length")
    assert slope.value == pytest.approx(-0.105)


def test_lengths_follow_hand_arithmetic():
    rows_ = [("1", "x", 20.0, 10.0), ("2", "y", 20.0, 10.0), ("3", "x", 40.0, 10.0), ("4", "y", 10.0, 20.0)]
    frame = listed("pair_id verdict length_a length_b", rows_)
    row = only(length(evidence(frame)))
    # The longer text won in pairs 1, 3 and 4; log₂ of the ratios: 1, 1, 2, −1, mean 3/4.
    assert row.longer_share == pytest.approx(3 / 4)
    assert row.length_ratio == pytest.approx(2**0.75)


def test_rater_rows_follow_hand_arithmetic():
    frame = table({"1": "xx", "2": "xy", "3": "--"}, first={"1": "xy", "2": "xy", "3": "xy"})
    first, second = rows(raters(evidence(frame)))
    assert (first.rater, first.pairs, first.tie_share) == ("r0", 3, pytest.approx(1 / 3))
    assert (first.agreement, first.compared) == (pytest.approx(2 / 3), 3)
    assert (first.first_share, second.first_share) == (1, pytest.approx(1 / 2))


def test_sensitivity_has_rows_of_people_and_of_a_judge():
    people = table({str(pair): ("xxy", "xyx", "x-x", "yxx")[pair % 4] for pair in range(12)})
    judge = table({str(pair): "x" if pair % 3 else "y" for pair in range(12)}, kind="model", raters=["m"])
    frame = sensitivity(evidence(joined(people, judge)))
    assert set(frame[frame["rater_kind"] == "model"]["analysis"]) & {RANDOM, LEFT_OUT} == set()
    person = frame[frame["rater_kind"] == "person"]
    pooled = only(person, analysis=POOLED)
    assert pooled.p == pytest.approx(stats.binomtest(24, 33).pvalue)
    assert pooled.win_share == pytest.approx((24 + 1.5) / 36)
    assert only(person, analysis=UNTIED).win_share > pooled.win_share
    assert only(person, default=True).p == only(shares(evidence(people)), dataset=ALL).p
    assert only(person, analysis=RANDOM).p >= only(person, default=True).p


def test_sensitivity_answer_names_other_conclusions():
    """13 of 20 pairs have p = .263 in the sign-flip test, and 39 of 60 ratings p = .027 in the binomial."""
    collected = evidence(table({str(pair): "xxx" if pair < 13 else "yyy" for pair in range(20)}))
    page = make_sensitivity_section(collected)
    expected = "a difference on coherence (p\u00a0=\u00a0.027) with ratings pooled"
    assert page.answer == f"1 of 2 would. The other finds {expected}"


def test_judge_rows_follow_hand_arithmetic():
    people = table({"1": "xxy", "2": "yyy", "3": "-xy", "4": "xx-"})
    judge = table({"1": "x", "2": "x", "3": "-", "4": "x"}, kind="model", raters=["m"])
    row = only(judges(evidence(joined(people, judge))))
    # Most people say x, y, tie (level), x; the judge x, x, tie, x.
    assert row.same_as_most == pytest.approx(3 / 4)
    assert row.with_a_person == pytest.approx((2 / 3 + 0 + 1 / 3 + 2 / 3) / 4)
    assert row.among_people == pytest.approx((1 / 3 + 1 + 0 + 1 / 3) / 4)


@pytest.mark.parametrize("unit", ["pair", "prompt"])
def test_unreachable_p_names_the_unit_of_the_test(unit):
    """Four pairs have at least p = 1/8."""
    names = "pair_id verdict prompt_id" if unit == "prompt" else "pair_id verdict"
    frame = listed(names, [(str(n), "x", f"p{n}")[: len(names.split())] for n in range(4)])
    (row,) = measure_total_shares(evidence(frame))
    assert format_p_or_reason(row, 0.05) == f"too few {unit}s"


def test_judge_answer_compares_significant_results():
    """People prefer x on both criteria. The judge prefers x on one and y on the other: 12 of 24 verdicts."""
    frames = [
        table({str(pair): letter for pair in range(12)}, criterion=criterion, **named)
        for criterion, letter, named in (
            ("coherence", "x", {}),
            ("fluency", "x", {}),
            ("coherence", "x", {"kind": "model", "raters": ["m"]}),
            ("fluency", "y", {"kind": "model", "raters": ["m"]}),
        )
    ]
    page = make_judges_section(evidence(joined(*frames)))
    expected = "The same result on 1 of 2, and the same verdict as most people on 50\u00a0% of pairs"
    assert page.answer == expected


def test_alternative_annotator_test_follows_hand_arithmetic():
    item, who = np.repeat(np.arange(40), 4), np.tile(np.arange(4), 40)
    truth = np.arange(40) % 3
    label = np.where((np.arange(160) * 7) % 5 == 0, (truth[item] + 1) % 3, truth[item])
    good, why = run_alternative_annotator_test(item, who, label, truth, np.arange(40), epsilon=0.15)
    bad, _ = run_alternative_annotator_test(item, who, label, (truth + 1) % 3, np.arange(40), epsilon=0.15)
    assert (good, bad, why) == (1, 0, "")
    none, why = run_alternative_annotator_test(
        item[:80], who[:80], label[:80], truth, np.arange(40), epsilon=0.15
    )
    assert none is None
    assert "there are 0" in why


def test_alternative_annotator_test_uses_yekutieli_correction():
    """Three annotators and a judge say 0 on 36 items, but the judge on 4 and each annotator on 4 others.

    On the judge's 4 items each annotator is ahead of it, on their own 4 behind it: the mean advantage is 0,
    its variance (4 + 4) / 35, and t = −.15 / √(8 / 35 / 36) = −1.88, p = .034 for all three. Benjamini and
    Hochberg would leave .034 for each; Benjamini and Yekutieli multiply it by 1 + 1/2 + 1/3.
    """
    label, judge = np.zeros((36, 3), dtype=int), np.zeros(36, dtype=int)
    judge[:4] = 1
    for annotator in range(3):
        label[4 + 4 * annotator : 8 + 4 * annotator, annotator] = 1
    item, who = np.repeat(np.arange(36), 3), np.tile(np.arange(3), 36)
    p = stats.t.cdf(-0.15 / np.sqrt(8 / 35 / 36), 35)
    for q, wins in ((p * 11 / 6 * 1.001, 1), (p * 11 / 6 * 0.999, 0)):
        share, _ = run_alternative_annotator_test(
            item, who, label.ravel(), judge, np.arange(36), epsilon=0.15, q=q
        )
        assert share == wins


def test_equivalence_agrees_with_statsmodels():
    verdicts = np.random.default_rng(7).choice(["x", "-", "y"], size=80)
    collected = evidence(table({f"{n:02}": letter for n, letter in enumerate(verdicts)}), margin=0.1)
    row = only(equivalence(collected))
    scores = np.array([{"x": 1, "-": 0.5, "y": 0}[letter] for letter in verdicts])
    expected = sm.stats.DescrStatsW(scores).ttost_mean(0.4, 0.6)[0]
    assert row.p == pytest.approx(expected)
    with pytest.raises(StudyError, match="a test of equivalence needs an alpha below"):
        equivalence(evidence(collected.frame, margin=0.1, alpha=0.7))


def test_equivalence_test_holds_its_level_if_wins_are_rare():
    """At the margin's edge the mean of two criteria, each with few wins, is equivalent in at most .06.

    Its wins count one half, so that by their number its ratings seem to spread four times as far as they do.
    """
    rng, items, margin = np.random.default_rng(1), 100, 0.03
    scores = (rng.random((6000, items, 2)) < 2 * margin).mean(axis=2)
    rejections = 0
    for study in scores:
        error = study.std(ddof=1) / 2 / items**0.5
        grown = compute_conservative_standard_error(error, study, items, margin=margin)
        p = run_two_one_sided_tests(0.5 + study.mean() / 2, grown, items - 1, margin=margin)
        rejections += p is not None and p <= 0.05
    assert rejections <= 0.06 * len(scores)


def test_equivalence_p_exceeds_one_half_beyond_the_margin():
    p_values = [run_two_one_sided_tests(share, 0.02, 50, margin=0.05) for share in (0.7, 0.3, 0.55)]
    assert p_values == pytest.approx([1.0, 1.0, 0.5], abs=1e-6)
    assert run_two_one_sided_tests(0.5, 0.0, 10, margin=0.1) is None


def test_judge_narrows_interval_of_partly_rated_pairs():
    rng = np.random.default_rng(3)
    truth = rng.random(120)
    people = table({f"{n:03}": "x" if truth[n] < 0.6 else "y" for n in range(40)})
    judge = table({f"{n:03}": "x" if truth[n] < 0.6 else "y" for n in range(120)}, kind="model", raters=["m"])
    collected = evidence(joined(people, judge), random_part=True)
    row = only(assisted(collected))
    assert (row.pairs_rated, row.pairs_judged, row.weight) == (40, 120, pytest.approx(1))
    # The judge says what people say: their share on all pairs, with an interval near that of 120 pairs.
    assert row.people_assisted == pytest.approx(row.judge_alone)
    assert row.high - row.low < row.people_high - row.people_low
    assert row.correlation == pytest.approx(1)
    gained = f"as much as {round(row.ratings_gained)}\u00a0more ratings would"
    assert make_assisted_section(collected).answer == f"Yes: {gained}"
    # On another criterion the judge says nothing about people's verdicts.
    answers = (people, table({f"{n:03}": "xy"[n % 2] for n in range(40)}, criterion="b"), judge)
    noise = table({f"{n:03}": "xxyy"[n % 4] for n in range(120)}, criterion="b", kind="model", raters=["m"])
    both = evidence(joined(*answers, noise), random_part=True)
    assert make_assisted_section(both).answer == f"Yes, on 1 of 2 results: {gained}"


def test_audit_counts_ratings_before_texts_were_seen():
    rows_ = [(str(pair), "xy"[pair % 2], 2 if pair < 3 else 3) for pair in range(20)]
    findings = audits(evidence(listed("pair_id verdict ends_seen", rows_)))
    finding = only(findings, kind="unseen ends")
    assert finding.what.startswith("3 of 20")
    assert finding.severity == "warning"  # 15 %, more than one in ten


def test_audit_counts_rows_without_presentation_singly():
    people = listed("pair_id verdict shown_first", [(str(pair), "x", "x") for pair in range(12)])
    judged = [(str(pair), "x", "xy"[n % 2], "gpt", n) for pair in range(12) for n in range(2)]
    judge = listed("pair_id verdict shown_first rater presentation", judged).assign(rater_kind="model")
    findings = audits(evidence(joined(people, judge)))
    assert only(findings, kind="unbalanced sides").what.startswith("x was shown first in 12 of 12")
    assert only(findings, kind="one place").where == "rater r, x against y, people"


def test_audit_names_raters_with_fixed_habits():
    places = {"always x": "x" * 12, "the first": "xy" * 6, "both": "xxyyxxyyxxyy"}
    rows_ = [
        (str(pair), word[pair], "xy"[pair % 2], rater, criterion)
        for rater, word in places.items()
        for pair in range(12)
        for criterion in "cd"
    ]
    findings = audits(evidence(listed("pair_id verdict shown_first rater criterion", rows_)))
    of_raters = [row for row in rows(findings) if "rater " in row.where]
    habits = {(row.where.split(", x against")[0], row.kind) for row in of_raters}
    assert habits == {
        ("rater always x", "unvarying rater"),
        ("rater the first", "straight-lining"),
        ("rater the first", "one place"),
        ("rater both", "straight-lining"),
    }


def ranked(verdict, prompts, raters=1):
    """Return the evidence of three methods, whose verdicts are `verdict(prompt, a, b)`."""
    rows = [
        (f"{n}{a}{b}", f"p{n}", a, b, verdict(n, a, b), f"r{rater}")
        for n in range(prompts)
        for rater in range(raters)
        for a, b in COMPARED
    ]
    return evidence(listed("pair_id prompt_id method_a method_b verdict rater", rows))


def chosen(seed, *chances):
    rng = np.random.default_rng(seed)
    return lambda _, a, b: rng.choice([a, b, "tie"], p=chances)


def test_ranking_puts_the_winner_first():
    frame = ranking(ranked(chosen(1, 0.7, 0.2, 0.1), 30))
    assert list(frame["method"]) == ["x", "y", "z"]
    assert list(frame["rank"]) == [1, 2, 3]
    assert frame["strength"].sum() == pytest.approx(0)
    first = rows(frame)[0]
    assert first.possible_best == 1
    assert first.share_low < first.expected_share < first.share_high
    assert first.p_any_difference_adjusted < 0.001
    assert ranking(evidence(table({"1": "x"}))).empty


@pytest.mark.parametrize(
    ("rated", "judged", "random_part", "reason"),
    [
        (range(40), range(20), False, "it judged 20 pairs, and people rated 40 pairs"),
        (range(40), range(40), False, "let it judge all pairs that people rated, and more"),
        (range(8), range(40), False, "let people rate at least 10 prompts"),
        (range(0, 40, 2), range(40), True, "and some pairs of each dataset"),
        (range(40), [], False, "gpt has judged no pair that people rated"),
        (range(20), range(40), False, ""),
    ],
)
def test_missing_assistance_is_explained(rated, judged, random_part, reason):
    """The first screen has the reason, and its foot names the test of people's ratings alone."""
    frame = drawn_verdicts()
    prompt = frame["prompt_id"].str[1:].astype(int)
    is_judge = frame["rater"] == "gpt"
    frame = frame[(is_judge & prompt.isin(judged)) | (~is_judge & prompt.isin(rated))]
    declared = evidence(check_verdicts(frame), assisted_by="gpt", random_part=random_part)
    screen = build_first_screen(declared)
    assert reason in screen.more
    assert ("prediction-powered" in screen.foot) == (not reason)


def test_more_evidence_never_weakens_a_ranking():
    """200 prompts that all say x > y > z have one rank each, as they have if one of them holds a tie."""
    for tied in ((), (0, "x", "y")):
        frame = ranking(ranked(lambda *pair, tied=tied: "tie" if pair == tied else pair[1], 200))
        assert list(frame["method"]) == ["x", "y", "z"]
        assert list(frame["possible_best"]) == list(frame["possible_worst"]) == [1, 2, 3]


@pytest.mark.parametrize("weights", ["equal", "precision"])
def test_ranking_weighs_pairs_as_comparisons_do(weights):
    """With as many pairs in each comparison, a method's expected share is the mean of its two win shares."""
    frame = drawn_verdicts(compared=COMPARED)
    is_dropped = frame["pair_id"].str[:3].astype(int).lt(20) & frame["rater"].isin(["bea", "cay"])
    uneven = evidence(check_verdicts(frame[~is_dropped & (frame["rater"] != "gpt")]), weights=weights)
    expected = {name: [] for name in "xyz"}
    for row in rows(shares(uneven)):
        if row.dataset == ALL:
            expected[row.method_a].append(row.win_share)
            expected[row.method_b].append(1 - row.win_share)
    for row in rows(ranking(uneven)):
        assert row.expected_share == pytest.approx(sum(expected[row.method]) / 2, abs=1e-9)


def test_ranking_for_other_raters_is_less_certain():
    collected = ranked(chosen(3, 0.6, 0.3, 0.1), 30, raters=5)
    (these, *_), (others, *_) = (
        rows(ranking(collected)),
        rows(ranking(evidence(collected.frame, raters="random"))),
    )
    assert others.share_high - others.share_low > these.share_high - these.share_low
    assert others.p_any_difference > these.p_any_difference
    assert "crossed clusters" in others.any_difference_test
    assert "with fewer than eight raters" in others.note


def test_sequential_test_orders_items_by_time():
    when = [("1", "x", "2026-01-03"), ("2", "y", "2026-01-01"), ("3", "x", "2026-01-02")]
    frame = listed("pair_id verdict at", [(pair, verdict, f"{day}T00:00:00Z") for pair, verdict, day in when])
    row = only(sequential(evidence(frame, sequential=True)))
    assert row.units == 3
    assert row.note == ""
    assert "no time is known" in only(sequential(evidence(frame.drop(columns="at"), sequential=True))).note
    assert sequential(evidence(frame)).empty
    waiting = evidence(frame, sequential=True, raters_per_item={"person": 2})
    assert "every item waits for another rating" in only(sequential(waiting)).note


def test_first_and_last_day_ignore_missing_times():
    when = [("1", "x", "2026-01-03T00:00:00Z"), ("2", "y", None), ("3", "x", "2026-01-02T00:00:00Z")]
    row = only(coverage(evidence(listed("pair_id verdict at", when))))
    assert (row.first_day, row.last_day) == ("2026-01-02", "2026-01-03")


CHECKS = [
    ("identical", ("=", "=", "t", "o", ""), 2, 2, 1),
    # both for it; one and a tie; one each way; two ties; one against; both against; one order alone
    ("shuffled", ("tt", "t=", "to", "==", "o=", "oo", "t"), 2, 2, 1),
    ("padded", ("tt", "=t", "ot", "==", "o=", "oo", ""), 2, 2, 1),
    # the same method, or a tie, either way round
    ("swapped", ("tt", "oo", "==", "to", "t=", ""), 3, 2, 1),
]


@pytest.mark.parametrize(("check", "items", "hits", "opposite", "missing"), CHECKS)
def test_calibration_follows_hand_arithmetic(check, items, hits, opposite, missing):
    names = {"t": "target", "o": "other", "=": "tie"}
    orders = 1 if check == "identical" else 2
    common = {"judge": "m", "check": check, "criterion": "fluency", "orders": orders}
    checked = tuple(
        CalibrationItem(**common, answers=tuple(names[letter] for letter in item)) for item in items
    )
    collected = evidence(table({"1": "x"}), judging=JudgeUsage(checked=checked))
    (row,) = ANALYSES["judge_calibration"](collected)
    assert (row.hits, row.opposite, row.missing) == (hits, opposite, missing)


def test_prompts_of_judges_are_told_without_their_costs():
    asked_prompt = AskedPrompt(
        judge="m", id="0123456789", prompt="0123456789", description="the paper's prompt",
        manner="answers in plain text", text="Compare", answers=9, verdicts=8,
    )  # fmt: skip
    section = make_judge_run_section(evidence(table({"1": "x"}), judging=JudgeUsage(prompts=(asked_prompt,))))
    assert section.notes[0].startswith(
        "m was asked with the paper's prompt (answers in plain text): 8 verdicts"
    )
    assert section.tables == ()


TESTED = (shares, agreement, raters, position, length, sensitivity, ranking, judges, audits)


@pytest.fixture(scope="module")
def verdicts():
    return check_verdicts(drawn_verdicts(prompts=12, compared=COMPARED))


@pytest.mark.parametrize("analysis", TESTED[:-2])
def test_analyses_never_pool_kinds_of_raters(analysis, verdicts):
    person = verdicts["rater_kind"] == "person"
    apart = [analysis(evidence(check_verdicts(kind))) for kind in (verdicts[person], verdicts[~person])]
    whole = analysis(evidence(verdicts))
    pd.testing.assert_frame_equal(whole, pd.concat(apart, ignore_index=True)[list(whole)])


def test_analysis_leaves_its_input_unchanged(verdicts):
    collected = evidence(verdicts)
    before = collected.frame.copy(deep=True)
    first = {analysis: analysis(collected) for analysis in TESTED}
    for analysis in reversed(TESTED):
        pd.testing.assert_frame_equal(analysis(collected), first[analysis])
    pd.testing.assert_frame_equal(collected.frame, before)
