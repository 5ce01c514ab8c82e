"""Which raters should be looked at: each rule at its border."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from ratings_by_hand import AT, B, note, pair, person, pressed, snapshot

from guard_eval.cli.overview.overview import view
from guard_eval.cli.overview.rater_lines import run_chance
from guard_eval.store import CheckRow


def lines(rows, *, n, length=100, raters=("ann",), **more):
    pairs = [pair(number, length=length) for number in range(n)]
    people = [person(name) for name in raters]
    return {
        line.rater: line for line in view(snapshot(rows, pairs=pairs, raters=people, **more), slots=2).raters
    }


def paced(seconds):
    """One rater; answers that lean to no side and make no run."""
    return [
        row
        for number, taken in enumerate(seconds)
        for row in pressed(number, f"p{number}", "ann", fluency="AB"[number % 2], seconds=taken)
    ]


@pytest.mark.parametrize(
    ("seconds", "fast", "flagged"),
    [
        ([9.9] * 3 + [10.0] * 2, 3, True),
        ([9.9] * 2 + [10.0] * 2 + [None], 2, False),
        ([9.9] * 4, 4, False),  # too few to say
        ([9.9] * 3 + [10.0] * 3, 3, False),
    ],
)
def test_fast_is_more_than_half_below_reading(seconds, fast, flagged):
    # 710 characters at 71 a second take 10 s.
    line = lines(paced(seconds), n=len(seconds), length=710)["ann"]
    assert line.fast == fast
    assert ("fast" in line.flags) is flagged


@pytest.mark.parametrize(("n", "flagged"), [(10, False), (11, True)])
def test_one_side_is_what_a_coin_gives_to_one_in_a_thousand(n, flagged):
    # All of n on one side: 2 / 2**n, which is .00195 and .00098.
    rows = [
        row for number in range(n) for row in pressed(number, f"p{number}", "ann", fluency="A", coherence="A")
    ]
    line = lines(rows, n=n)["ann"]
    assert line.first.value == 1.0
    assert line.first.n == n  # pairs, not answers
    assert ("one side" in line.flags) is flagged


def test_a_pair_whose_answers_cancel_leans_to_no_side():
    line = lines(pressed(1, "p0", "ann", fluency="A", coherence="B"), n=1)["ann"]
    assert line.first.n == 0


@pytest.mark.parametrize("share", [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_the_chance_of_a_run_against_all_sequences(share):
    for n in range(1, 9):
        for length in range(1, n + 1):
            exact = sum(
                share ** sum(answers) * (1 - share) ** (n - sum(answers))
                for answers in product((0, 1), repeat=n)
                if "1" * length in "".join(map(str, answers))
            )
            given = run_chance(n, length, float(share))
            assert given >= float(exact) - 1e-12
            if 2 * length >= n:
                assert given == pytest.approx(float(exact))


def test_the_same_answer_throughout_is_judged_by_what_others_press():
    # Nine others press A, tie and B in turn; ann presses B twelve times.
    others = [f"r{number}" for number in range(9)]
    rows, number = [], 0
    for place in range(12):
        for who, name in enumerate(others):
            number += 1
            rows += pressed(number, f"p{place}", name, fluency=("A", "tie", "B")[(place + who) % 3])
        number += 1
        rows += pressed(number, f"p{place}", "ann", fluency="B")
    found = lines(rows, n=12, raters=("ann", *others))
    assert found["ann"].run.length == 12
    assert found["ann"].run.position == "B"
    assert "same answer" in found["ann"].flags
    # A third of 108 answers, smoothed: (36 + 1) / (108 + 3) = 1/3; three answers could have run.
    assert found["ann"].run.chance == pytest.approx(3 * (1 / 3) ** 12)
    assert not any("same answer" in found[name].flags for name in others)


def test_ties_throughout_are_no_straight_line_where_all_say_tie():
    names = ("ann", "ben", "cas")
    rows = [
        row
        for place, name in enumerate(names)
        for number in range(30)
        for row in pressed(100 * place + number, f"p{number}", name, fluency="tie")
    ]
    assert not any(line.flags for line in lines(rows, n=30, raters=names).values())


def check(passed, *, kind="gold"):
    return CheckRow(
        rater="ann",
        rater_kind="person",
        check=kind,
        presentation=1,
        pair_id="g",
        criterion="fluency",
        expected=B,
        given=B,
        passed=passed,
        at=AT,
    )


@pytest.mark.parametrize(
    ("answers", "flagged"),
    [([False, False, True, True], True), ([False, True], False), ([False, False, True, True, True], False)],
)
def test_gold_is_two_failures_and_half(answers, flagged):
    checks = [check(passed) for passed in answers] + [check(passed=False, kind="repeat")]
    line = lines(pressed(1, "p0", "ann", fluency="A"), n=1, checks=checks)["ann"]
    assert (line.gold, line.gold_failed, line.repeats_changed) == (len(answers), answers.count(False), 1)
    assert ("gold" in line.flags) is flagged


@pytest.mark.parametrize(
    ("tried", "flagged"),
    [([False], False), ([False, True], False), ([False, False], True)],
)
def test_the_comprehension_check(tried, flagged):
    notes = [note("ann", "check", f'{{"passed": {str(passed).lower()}}}') for passed in tried]
    assert ("failed the check" in lines([], n=1, notes=notes)["ann"].flags) is flagged


def test_what_state_a_rater_is_in():
    people = [person("ann", revoked=True), person("ben"), person("cas"), person("dan", excluded=True)]
    notes = [
        note("ben", "consent", '{"agreed": false}'),
        note("cas", "consent", '{"agreed": true}'),
        note("cas", "finished", '{"rated": 1}'),
    ]
    rows = pressed(1, "p0", "cas", fluency="A")
    found = view(snapshot(rows, pairs=[pair(0), pair(1)], raters=people, notes=notes), slots=2).raters
    assert [line.state for line in found] == ["revoked", "declined", "finished", "excluded"]
    # There is more to do again.
    more = [*rows, *pressed(2, "p1", "cas", fluency="A")]
    found = view(snapshot(more, pairs=[pair(0), pair(1)], raters=people, notes=notes), slots=2).raters
    assert found[2].state == ""


def test_agreement_with_others_is_over_pairs_and_criteria():
    rows = [
        *pressed(1, "p0", "ann", fluency="A", coherence="A"),
        *pressed(2, "p0", "ben", fluency="A", coherence="B"),
        *pressed(3, "p0", "cas", fluency="B", coherence="A", first=B),
        *pressed(4, "p1", "ann", fluency="A"),
        *[replace(row, role="repeat") for row in pressed(5, "p0", "ann", fluency="B", first=B)],
    ]
    found = lines(rows, n=2, raters=("ann", "ben", "cas"))
    # fluency: ben and cas say what ann says, by method; coherence: neither ben (B) nor cas (A, swapped) does.
    assert (found["ann"].same, found["ann"].compared) == (2, 4)
    assert (found["ben"].same, found["ben"].compared) == (3, 4)
