"""Sentences of a report and its paper that could claim more than the verdicts support."""

from dataclasses import replace

import pytest
from verdicts_by_hand import joined, listed, table

import analysis
from analysis.evidence import Evidence
from analysis.reports.first_screen import build_first_screen
from analysis.reports.notebook import make_evidence
from analysis.reports.paper import write_manuscript
from analysis.reports.sentences import describe_limitations, describe_methods
from analysis.sections.results import by_column, ranking, sensitivity, shares

# 25 wins, 4 ties and 11 losses of one rater: the sign test of 25:11 gives p = .029.
MIXED = dict(enumerate(["x"] * 25 + ["-"] * 4 + ["y"] * 11))
SHUFFLED = {number: MIXED[17 * number % 40] for number in range(40)}
GENRES = table(SHUFFLED).assign(genre=[0, 1] * 20)
# Only the first rater sees a difference: without this rater, 2 of 20 pairs differ.
LONELY = dict(enumerate(["xx-", "x-x", *["x--"] * 18]))
LADDER = ("uv", "vw", "uw")
OPPOSED = dict.fromkeys(range(20), "xy")


def screen(frame, **plan):
    return build_first_screen(make_evidence(frame, **plan))


@pytest.mark.parametrize(
    ("frame", "plan", "answer"),
    [
        (table(SHUFFLED), {}, "Yes: no other analysis is on the other side of 0.05"),
        (
            table(SHUFFLED),
            {"sequential": True},
            "0 of 3 would. The others find a difference on coherence (p = .029) with the exact sign-flip",
        ),
        (
            GENRES,
            {"by": ["genre"]},  # two results, so p is .058 in each analysis
            "Yes: no other analysis is on the other side of 0.05",
        ),
        (
            table(LONELY),
            {},
            "2 of 3 would. The other finds no difference on coherence (no test) with one rater left out",
        ),
        (
            table(OPPOSED),
            {},
            "1 of 2 would. The other finds a difference on coherence (p < .001) with one rater left out",
        ),
        (
            joined(table(LONELY), table(dict(enumerate(["-xxx"] * 20)), a="u", b="v", raters="efgh")),
            {},
            "no difference on coherence of x against y (no test) with one rater left out",
        ),
    ],
)
def test_other_analyses_are_compared_with_the_answer(frame, plan, answer):
    evidence = make_evidence(frame, **plan)
    assert answer in sensitivity.make_section(evidence).answer.replace("\u00a0", " ")
    decided = {row.key: row.deciding_p for row in evidence.rows(sensitivity.select_rows_for_report_answer)}
    for row in evidence.rows(sensitivity.run_alternative_analyses):
        assert not row.default or row.deciding_p == decided[row.key]


def test_sequential_plan_says_which_p_hold_for_one_look():
    evidence = make_evidence(table(SHUFFLED), sequential=True)
    assert "hold for one look only" in analysis.shares(table(SHUFFLED), sequential=True)["note"][0]
    assert "no time is known" in " ".join(describe_limitations(evidence)).casefold()
    assert "one look" not in " ".join(describe_limitations(evidence))  # the answer has the sequential test
    evidence = make_evidence(GENRES, sequential=True, by=["genre"])
    for section in (shares, sensitivity, by_column):
        assert "hold for one look only" in " ".join(section.make_section(evidence).notes)


def test_declared_interaction_counts_in_every_declared_test():
    for plan in ({}, {"sequential": True}):
        (row,) = make_evidence(GENRES, by=["genre"], **plan).rows(sensitivity.select_rows_for_report_answer)
        assert (row.family, row.p_adjusted) == (2, pytest.approx(2 * row.p))


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_no_judge_speaks_for_the_others(names):
    """One judge finds no difference (10:10), and the other prefers y (20:0), whatever their names are."""
    undecided = table(dict(enumerate("xy" * 10)), kind="model", raters=[names[0]])
    clear = table(dict.fromkeys(range(20), "y"), kind="model", raters=[names[1]])
    first_screen = screen(joined(undecided, clear))
    assert set(first_screen.answer.removesuffix(".").split(". ")) == {
        f"The judge {names[0]} found no difference between x and y on coherence",
        f"The judge {names[1]} preferred y to x on coherence (x 0\u00a0%)",
    }
    assert "Each result is about one judge" in first_screen.foot


def judge_pairs(judge, letters, **more):
    pairs = {f"{more.get('a')}{more.get('b')}{number}": letter for number, letter in enumerate(letters)}
    return table(pairs, kind="model", raters=[judge], **more)


@pytest.mark.parametrize(
    ("tables", "plan", "answer", "detectable"),
    [
        ([judge_pairs("a", "x" * 20)], {}, ["x was preferred to y on coherence (100 %)"], False),
        ([judge_pairs("a", "xy" * 10)], {}, ["No difference between x and y was found"], True),
        (
            [
                judge_pairs("a", "x" * 20),
                judge_pairs("a", "x" * 20, criterion="fluency"),
                judge_pairs("b", "x" * 20),
                judge_pairs("b", "-" * 20, criterion="fluency"),
                judge_pairs("c", "xy" * 10),
                judge_pairs("c", "xxx", criterion="fluency"),
            ],
            {},
            [
                "The judge a preferred x to y on coherence (100 %) and fluency (100 %)",
                "The judge b preferred x to y on coherence (100 %)",
                "found every pair balanced between x and y on fluency",
                "The judge c found no difference between x and y on coherence",
                "gives no answer on fluency: too few pairs favour x or y to tell them apart",
            ],
            False,
        ),
        (
            [
                *(judge_pairs("a", "x" * 20, a=a, b=b) for a, b in ("xy", "xz", "yz")),
                judge_pairs("b", "y" * 20, a="x", b="y"),
            ],
            {"family": ["coherence"]},
            [
                "The judge a preferred x to y on coherence (100 %)",
                "preferred x to z on coherence (100 %)",
                "preferred y to z on coherence (100 %)",
                "The judge b preferred y to x on coherence (x 0 %)",
            ],
            False,
        ),
    ],
)
def test_answer_gives_results_of_each_judge_once(tables, plan, answer, detectable):
    first_screen = screen(joined(*tables), **plan)
    phrases = first_screen.answer.replace("\u00a0", " ").removesuffix(".").replace(". ", "; ")
    assert phrases.split("; ") == answer
    assert "preferred" not in first_screen.more
    # One judge's number of pairs says nothing about the results of the others.
    assert ("would have been found" in first_screen.more) == detectable


def test_paper_calls_results_outside_the_family_exploratory():
    """Fluency was not declared, and p is 2/2^6 = .031."""
    frame = joined(
        table(dict.fromkeys(range(20), "xx")), table(dict.fromkeys(range(6), "yy"), criterion="fluency")
    )
    files = write_manuscript(make_evidence(frame, family=["coherence"]))
    assert "y was preferred to x (exploratory, p uncorrected; " in files["paper/sentence.txt"]
    assert files["paper/sentence.txt"].count("exploratory") == 1
    assert r"\textbf{coherence}" in files["paper/table.tex"]
    assert r"\textbf{fluency}" not in files["paper/table.tex"]
    assert "Exploratory, with uncorrected p: fluency." in files["paper/table.tex"]
    assert "| **coherence** |" in files["paper/table.md"]


def test_answers_outside_the_declared_family_are_called_exploratory():
    """Only the judge rated fluency, and only people rated coherence."""
    frame = joined(
        table(dict.fromkeys(range(20), "xx")),
        table(dict.fromkeys(range(20), "y"), criterion="fluency", kind="model", raters=["m"]),
    )
    declared, undeclared = screen(frame, family=["coherence"]), screen(frame, family=["fluency"])
    assert "exploratory" not in declared.foot
    assert (
        "The judge m preferred y to x on fluency (x 0\u00a0%) (not declared, and p is not corrected)."
        in declared.more
    )
    assert "exploratory, because they are not in the declared family" in undeclared.foot
    assert "The judge m preferred y to x on fluency (x 0\u00a0%)." in undeclared.more


@pytest.mark.parametrize(
    ("frame", "plan", "words"),
    [
        # Ten pairs with three wins each, and ten with one loss: the mean of pairs is 50 %, of ratings 75 %.
        (table(dict(enumerate(["xxx"] * 10 + ["y"] * 10))), {}, "75 % of ratings won, 0 % tied"),
        (table(dict(enumerate(["xx"] * 10 + ["y-"] * 10))), {}, "50 % won, 25 % tied"),
        (table(dict(enumerate(["x"] * 6 + ["-"] * 1194))), {}, "0.5 % won, 99.5 % tied"),
    ],
)
def test_shares_of_wins_and_ties_fit_the_share(frame, plan, words):
    ((line,),) = (bars.lines for bars in screen(frame, **plan).bars)
    assert line.win_and_tie_shares.replace("\u00a0", " ") == words


def test_answer_says_what_was_done_and_by_whom():
    uneven = joined(
        table(dict.fromkeys(range(20), "x-y")), table(dict.fromkeys(range(20), "x"), criterion="fluency")
    )
    assert "the people who rated it (1 to 3 of 3)" in screen(uneven).foot
    weighed = table(dict(enumerate(["xxx"] * 10 + ["y"] * 10)))
    assert "Each pair weighs by its precision" in screen(weighed, weights="precision").foot
    slight = table(dict(enumerate(["x"] * 6 + ["-"] * 1194)))
    assert "x was preferred to y on coherence (50.2\u00a0%)" in screen(slight).answer
    fixed = make_evidence(slight)
    differs = ("Preregistration: compared with plan.md, the pairs DIFFER (1 there, 2 now).",)
    moved = Evidence.from_verdicts(slight, replace(fixed.context, declared=differs))
    assert "not those of the written plan" in build_first_screen(moved).more
    assert "written plan" not in build_first_screen(fixed).more
    composite = make_evidence(uneven, composite={"coherence": 1, "fluency": 1})
    assert not any("more than once" in sentence for sentence in describe_methods(composite))


def test_equal_methods_have_equal_ranks_and_lead_only_their_group():
    """x, y and z beat each other in a circle; u beats v, v beats w, and w is never compared with x."""
    circle = [(f"{a}{b}{n}", a, b, a) for n in range(8) for a, b in ("xy", "yz", "zx")]
    ladder = [(f"{a}{b}{n}", a, b, a) for n in range(12) for a, b in LADDER]
    frame = listed("pair_id method_a method_b verdict", circle + ladder)
    ranks = {row.method: row.rank for row in make_evidence(frame).rows(ranking.rank_methods)}
    assert ranks == {"x": 1, "y": 1, "z": 1, "u": 1, "v": 2, "w": 3}
    assert "u leads, ahead of all others that were compared with it" in screen(frame).answer


def test_methods_that_may_be_best_follow_the_leader():
    """u beats v on 8 of 12 prompts, and both always beat w."""
    verdicts = [(f"{a}{b}{n}", a, b, a if b == "w" or n % 3 else b) for n in range(12) for a, b in LADDER]
    answer = screen(listed("pair_id method_a method_b verdict", verdicts)).answer
    assert "u leads, but v may be best, too; w comes last" in answer
