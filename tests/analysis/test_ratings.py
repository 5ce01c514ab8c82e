"""How far a running study is, how its raters agree, and which to look at: against sums done by hand."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

import numpy as np
import pytest
from databases import read_all_rows
from factories import make_pair

from analysis.monitor.ratings import read_ratings
from analysis.monitor.status import describe_rating_progress
from guard_eval.records import Pair
from guard_eval.store import Store, raters
from guard_eval.store.schema import add_rows

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
A, B = "guard", "top_k(k=50)"


class Study:
    """A running study whose rows are written by hand; `first` is which text was shown as A."""

    def __init__(self, url, people, *, pairs):
        self.store = Store.open(url, create=True)
        with self.store.begin_write() as (db, _):
            for number in range(pairs):
                self.add_pair(db, f"p{number}", number, 30)
        self.people = {name: raters.get_or_add_rater(self.store, name, "person").id for name in people}

    @staticmethod
    def add_pair(db, name, number, length, **more):
        texts = {"prompt": "p" * length, "text_a": "a" * length, "text_b": "b" * length}
        pair = make_pair(number, id=name, method_a=A, method_b=B, dataset="d", **texts)
        values = {field: getattr(pair, field) for field in Pair.__dataclass_fields__}
        add_rows(db, "pair", [values | more])

    def pressed(self, presentation, pair, rater, *, first="a", role="study", seconds=30.0, **letters):
        showing = {
            "id": presentation,
            "pair_id": pair,
            "rater_id": self.people[rater],
            "number": presentation,
        }
        showing |= {"first": first, "role": role, "handed_out": NOW, "rated_at": NOW}
        with self.store.begin_write() as (db, _):
            add_rows(db, "presentation", [showing])
            for criterion, letter in letters.items():
                self.add_verdict(db, presentation, criterion, letter, seconds=seconds)

    @staticmethod
    def add_verdict(db, presentation, criterion, letter, *, revision=0, seconds=None):
        values = {"presentation_id": presentation, "criterion": criterion, "revision": revision, "at": NOW}
        values |= {"choice": letter, "active_seconds": seconds}
        values["seconds"] = None if seconds is None else seconds + 5
        add_rows(db, "verdict", [values])

    def note(self, rater, kind, detail, presentation=None, minute=0):
        at = NOW.replace(minute=minute)
        values = {"rater_id": self.people[rater], "presentation_id": presentation, "kind": kind}
        with self.store.begin_write() as (db, _):
            add_rows(db, "note", [values | {"detail": detail, "at": at}])

    def ratings(self, slots=2, criteria=()):
        everybody = raters.read_rater_progress(self.store)
        return read_ratings(self.store, everybody, slots=slots, criteria=criteria)

    def lines(self):
        return {row.rater: row for row in self.ratings().raters}


@pytest.fixture
def study(tmp_path):
    """Return a function that makes a study. Each study is closed after the test."""
    studies = []

    def make(people=("ann",), **options):
        url = f"sqlite:///{tmp_path / f'{len(studies)}.db'}"
        studies.append(Study(url, people, **options))
        return studies[-1]

    yield make
    for opened in studies:
        opened.store.close()


@pytest.fixture
def four(study):
    """Two raters on four pairs. By method: (a, a), (a, b), (tie, tie), (b, b); ben sees the sides swapped."""
    four = study(("ann", "ben"), pairs=5)
    answers = [("A", "B"), ("A", "A"), ("tie", "tie"), ("B", "A")]
    times = [(20.0, 40.0), (30.0, 50.0), (30.0, 30.0), (30.0, 30.0)]
    for pair, (both, seconds) in enumerate(zip(answers, times, strict=True)):
        four.pressed(2 * pair + 1, f"p{pair}", "ann", fluency=both[0], seconds=seconds[0])
        four.pressed(2 * pair + 2, f"p{pair}", "ben", fluency=both[1], first="b", seconds=seconds[1])
    return four


def test_agreement_is_by_method_and_preference_by_side(four):
    (row,) = four.ratings().criteria
    # Three of four pairs agree; chance: 3/8 for a, 2/8 ties, 3/8 for b, so 22/64.
    assert row.same == 3 / 4
    assert row.kappa.value == pytest.approx((3 / 4 - 22 / 64) / (1 - 22 / 64))
    assert row.kappa.low is None  # of four pairs none is given
    assert row.ties == pytest.approx(2 / 8)
    # A was pressed by ann twice and by ben twice, B once each.
    assert row.first.value == 4 / 6
    assert row.first.n == 6


def test_status_counts_a_changed_answer_once(four):
    ratings = four.ratings()
    assert (ratings.counted, ratings.planned, ratings.filled, ratings.missing_ratings) == (
        8,
        10,
        (1, 0, 4),
        2,
    )
    assert ratings.seconds == 30.0  # of 20, 30, 30, 30, 30, 30, 40, 50
    with four.store.begin_write() as (db, _):
        four.add_verdict(db, 4, "fluency", "B", revision=1)
    ratings = four.ratings()
    assert [row.same for row in ratings.criteria] == [1.0]
    assert (ratings.seconds, ratings.counted) == (30.0, 8)


def test_status_reports_excluded_raters_without_counting_them(four):
    raters.decide_about_rater(four.store, "ben", "exclude", by="owner", reason="for the test")
    ratings = four.ratings()
    assert (ratings.counted, ratings.excluded, ratings.filled) == (4, 4, (1, 4, 0))
    assert ratings.criteria[0].kappa.note == "no item was rated twice"
    assert [row.state for row in ratings.raters] == ["", "excluded"]


def test_status_hides_which_method_is_ahead(study, four):
    """A study in which every verdict goes to the other method looks the same."""
    mirrored = study(("ann", "ben"), pairs=5)
    with four.store.begin_read() as db:
        showings = [row._asdict() for row in read_all_rows(db, "presentation")]
        verdicts = [row._asdict() for row in read_all_rows(db, "verdict")]
    with mirrored.store.begin_write() as (db, _):
        turned = [row | {"first": {"a": "b", "b": "a"}[row["first"]]} for row in showings]
        add_rows(db, "presentation", turned)
        add_rows(db, "verdict", verdicts)
    assert asdict(four.ratings()) == asdict(mirrored.ratings())


def test_last_remark_counts_unless_withdrawn(four):
    four.note("ann", "comment", "odd", 1)
    four.note("ben", "comment", "both good", 2, minute=5)
    four.note("ann", "comment", "not so odd", 1, minute=6)
    four.note("ben", "problem", "offensive", 4)
    four.note("ben", "problem", "", 4, minute=7)
    four.note("ann", "consent", '{"agreed": true}')
    ratings = four.ratings()
    assert [(remark.rater, remark.text, remark.prompt_id, remark.when) for remark in ratings.remarks] == [
        ("ann", "not so odd", "prompt-0", "2026-01-02 03:06"),
        ("ben", "both good", "prompt-0", "2026-01-02 03:05"),
    ]
    assert [row.remarks for row in ratings.raters] == [1, 1]


def test_status_of_an_untouched_study_is_empty(study):
    ratings = study((), pairs=0).ratings()
    assert (ratings.planned, ratings.seconds, ratings.filled) == (0, None, (0, 0, 0))
    assert len(ratings.criteria) == len(ratings.raters) == 0
    assert describe_rating_progress(ratings).startswith("0 of 0 ratings (0 %)")


FAST, SLOW = 1.26, 1.27
"""Seconds: 90 characters at 71 a second take 1.2676."""


@pytest.mark.parametrize(
    ("seconds", "flagged"),
    [
        ([FAST] * 3 + [SLOW] * 2, True),
        ([FAST] * 2 + [SLOW] * 2 + [None], False),
        ([FAST] * 4, False),  # too few to say
    ],
)
def test_fast_flag_needs_less_than_half_the_reading_time(study, seconds, flagged):
    paced = study(pairs=len(seconds))
    for number, taken in enumerate(seconds):  # to no side, and in no run
        paced.pressed(number, f"p{number}", "ann", fluency="AB"[number % 2], seconds=taken)
    assert ("fast" in paced.lines()["ann"].flags) is flagged


@pytest.mark.parametrize(("n", "flagged"), [(10, False), (11, True)])
def test_one_side_flag_has_a_chance_of_one_in_a_thousand(study, n, flagged):
    # All of n on one side: 2 / 2**n, which is .00195 and .00098.
    sided = study(pairs=n + 1)
    sided.pressed(n, f"p{n}", "ann", fluency="A", coherence="B")  # which cancel, and lean to no side
    for number in range(n):
        sided.pressed(number, f"p{number}", "ann", fluency="A", coherence="A")
    line = sided.lines()["ann"]
    assert line.first == 1.0  # of pairs, not of answers
    assert ("one side" in line.flags) is flagged


def test_same_answer_flag_compares_with_other_raters(study):
    # Nine others press A, tie and B in turn; ann presses B twelve times.
    others = [f"r{number}" for number in range(9)]
    running = study(("ann", *others), pairs=12)
    for index in range(12):
        running.pressed(10 * index, f"p{index}", "ann", fluency="B")
        for who, name in enumerate(others, start=1):
            running.pressed(10 * index + who, f"p{index}", name, fluency=("A", "tie", "B")[(index + who) % 3])
    lines = running.lines()
    # A third of 108 answers, smoothed: (36 + 1) / (108 + 3) = 1/3; three answers could be it: 3 / 3**12.
    assert lines["ann"].favourite == "B, 12 of 12"
    assert "same answer" in lines["ann"].flags
    assert not any("same answer" in lines[name].flags for name in others)


def test_constant_ties_are_not_flagged_if_all_raters_tie(study):
    tied = study(("ann", "ben", "cas"), pairs=30)
    for number in range(90):
        tied.pressed(number, f"p{number // 3}", ("ann", "ben", "cas")[number % 3], fluency="tie")
    assert not any(line.flags for line in tied.lines().values())


@pytest.mark.parametrize(("failed", "passed", "flagged"), [(2, 2, True), (1, 1, False), (2, 3, False)])
def test_gold_flag_needs_two_failures_and_half_of_the_checks(study, failed, passed, flagged):
    golden = study(pairs=1)
    for number in range(failed + passed):
        with golden.store.begin_write() as (db, _):
            golden.add_pair(db, f"g{number}", number, 30, expected={"fluency": "a"})
        letter = "B" if number < failed else "A"
        golden.pressed(number, f"g{number}", "ann", role="gold", fluency=letter, coherence="A")
    golden.pressed(90, "p0", "ann", fluency="A")
    golden.pressed(91, "p0", "ann", role="repeat", first="b", fluency="A")  # the other text
    line = golden.lines()["ann"]
    assert (line.gold, line.gold_failed) == (failed + passed, failed)
    assert (line.repeats, line.repeats_changed) == (1, 1)
    assert ("gold" in line.flags) is flagged


def test_failed_comprehension_check_is_flagged(study):
    names = {"once": [False], "passed": [False, True], "twice": [False, False]}
    checked = study(tuple(names), pairs=1)
    for name, tries in names.items():
        for passed in tries:
            checked.note(name, "check", json.dumps({"passed": passed}))
    flags = {name: line.flags for name, line in checked.lines().items()}
    assert flags == {"once": (), "passed": (), "twice": ("failed the check",)}


def test_added_pairs_make_a_finished_rater_unfinished(study):
    more = study(pairs=2)
    more.note("ann", "finished", '{"rated": 1}')
    more.pressed(1, "p0", "ann", fluency="A")
    assert more.lines()["ann"].state == "finished"
    more.pressed(2, "p1", "ann", fluency="A")
    assert more.lines()["ann"].state == ""


def test_rater_agreement_uses_all_pairs_and_criteria(study):
    agreeing = study(("ann", "ben", "cas"), pairs=2)
    agreeing.pressed(1, "p0", "ann", fluency="A", coherence="A")
    agreeing.pressed(2, "p0", "ben", fluency="A", coherence="B")
    agreeing.pressed(3, "p0", "cas", fluency="B", coherence="A", first="b")
    agreeing.pressed(4, "p0", "ann", fluency="B", first="b", role="repeat")
    lines = agreeing.lines()
    # fluency: ben and cas say what ann says, by method; coherence: neither ben (B) nor cas (A, swapped) does.
    assert (lines["ann"].same, lines["ben"].same, lines["ann"].repeats_changed) == (2 / 4, 3 / 4, 0)


def test_often_skipped_pair_is_counted(study):
    skipped = study(("ann", "ben", "cas"), pairs=1)
    for number, name in enumerate(("ann", "ben", "cas"), start=1):
        skipped.pressed(number, "p0", name)
        skipped.note(name, "skip", "unreadable", number)
    assert skipped.ratings().often_skipped == 1
    assert [row.skipped for row in skipped.ratings().raters] == [1, 1, 1]


def test_progress_sentence_counts_pairs_for_people(study):
    running = study(["ada"], pairs=1)
    running.pressed(1, "p0", "ada", coherence="A")
    assert describe_rating_progress(running.ratings()) == (
        "1 of 2 ratings (50 %): 1 pair, 2 people each. 1 to go: about 30 s of rating in all, at 30 s a pair."
    )
    with running.store.begin_write() as (db, _):
        running.add_pair(db, "for a judge alone", 1, 30, for_people=False)
    assert describe_rating_progress(running.ratings()).startswith(
        "1 of 2 ratings (50 %): 1 of 2 pairs, 2 people each."
    )


def test_ratings_without_a_later_criterion_are_counted(study):
    """Fluency was asked of both pairs; wit, which came later, was answered on the second one."""
    grown = study(pairs=2)
    grown.pressed(1, "p0", "ann", fluency="A")
    grown.pressed(2, "p1", "ann", fluency="A", wit="B")
    assert grown.ratings(criteria=("fluency", "wit", "depth")).lacking == {"wit": 1, "depth": 2}
    assert grown.ratings(criteria=("fluency",)).lacking == {}


def test_owner_sees_who_answers_like_a_judge(study, tmp_path):
    """Ann presses what the judge says on 60 pairs, whose sides differ; two others what they like."""
    running = study(("ann", "ben", "cas"), pairs=60)
    running.people["gpt"] = raters.get_or_add_rater(running.store, "gpt", "model").id
    rng = np.random.default_rng(2)
    for pair in range(60):
        judged, *others = rng.choice(["A", "tie", "B"], 3)
        turned = {"A": "B", "B": "A", "tie": "tie"}
        running.pressed(4 * pair + 1, f"p{pair}", "gpt", fluency=judged)
        running.pressed(4 * pair + 2, f"p{pair}", "ann", first="b", fluency=turned[judged])
        running.pressed(4 * pair + 3, f"p{pair}", "ben", fluency=others[0])
        running.pressed(4 * pair + 4, f"p{pair}", "cas", fluency=others[1])
    for pair in range(4):
        running.note("ann", "conduct", json.dumps({"copies": 2, "untrusted": 1}), presentation=4 * pair + 2)
        running.note("ben", "conduct", json.dumps({"copies": 1}), presentation=4 * min(pair, 1) + 3)
    lines = running.lines()
    assert {name: line.flags for name, line in lines.items()} == {
        "ann": ("like a model",),
        "ben": (),
        "cas": (),
    }
    assert lines["ann"].signs.startswith("agrees with gpt on 60 of 60 pairs (fluency; ")
    assert lines["ann"].signs.endswith(
        "expected); copied text and left the page on 4 pairs; a program clicked or typed on 4 pairs"
    )
    assert lines["ann"].state == ""
