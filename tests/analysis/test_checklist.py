"""The page for a reviewer's checklist: what a study knows, what its owner states, and nobody's answer."""

import json
from itertools import product

import pytest
from app_study import build_study, make_gold, make_pair
from cli_study import write_study

from analysis.publication.describe import describe
from analysis.reports.checklist import tabulate_background_answers
from analysis.reports.command import report
from guard_eval.store import handout, manage, notes, raters, verdicts
from guard_eval.study import Study

NAMES = tuple(f"name-{number}" for number in range(12))
PAGES = """pages = { consent = true, background = true, practice = true, check = true }
gold_every = 3
[people]
recruited = "Students of *linguistics*, by e-mail."
pay_per_hour = "12 EUR"
"""


def note(store, name, kind, **detail):
    notes.write_note(store, raters.get_or_add_rater(store, name, "person"), kind, json.dumps(detail))


@pytest.fixture
def rated(tmp_path):
    """A study that twelve people rated, of whom one declined first, one failed and one was excluded."""
    pairs = [make_pair(number) for number in range(4)]
    built = build_study(tmp_path / "s", pairs, raters=NAMES, slots=12, gold=[make_gold(0)], more=PAGES)
    study = Study.open(built.folder)
    with built.open() as store:
        for index, name in enumerate(NAMES):
            person = raters.get_or_add_rater(store, name, "person")
            note(store, name, "consent", agreed=index != 11)
            note(store, name, "background", native="yes" if index < 9 else "no", languages=f"secret-{index}")
            note(store, name, "practice", pair="bakery")
            note(store, name, "check", passed=index != 10, wrong=[])
            if index >= 10:
                continue
            for blind in handout.claim_pairs(store, person, study.hand_out_plan, limit=5):
                choices = {"coherence": "A", "fluency": "A"}
                verdicts.save_verdict(store, blind.presentation, choices, rater=person, active_seconds=60.0)
    manage.exclude_raters(study, NAMES[0], reason="answered for a friend")
    return built.folder


def test_checklist_answers_every_question(rated):
    page = (
        (report(rated, paper=True).folder / "paper" / "checklist.md")
        .read_text("utf-8")
        .replace("\u00a0", " ")
    )
    expected = (
        "9 people rated 4 pairs on 2 criteria: 36 ratings",
        "> * Judge each question on its own: a text may win on one and lose on another.",
        "Recruitment: Students of \\*linguistics\\*, by e-mail.",
        "12 came by an invitation by name.",
        "Pay for an hour: 12 EUR",
        "0.8 hours in all; a person between 5 and 5 minutes, the median 5.",  # 10 people, 5 minutes each
        "11 agreed, and 1 declined",
        "We do not store what you copy.",
        "2 pairs with feedback, done by 12",
        "4, two attempts; 11 passed, 1 failed and rated nothing",
        " of 10 answers right",
        "Fleiss' κ",
        "a rater with 8 verdicts that do not count, excluded before the results were first seen.",
        "first seen. Reason: answered for a friend",
        "never the name of a system",
    )
    assert [sentence for sentence in expected if sentence not in page] == []
    assert page.count("**Not stated.**") == 2  # ethics and population
    assert not [name for name in NAMES if name in page]
    assert "secret" not in page
    # Nine said yes, and one of those who rated said no: a number below five by subtraction.
    assert "Is the language of the texts" not in page


def test_describe_writes_the_checklist_of_the_report(rated):
    written = report(rated, paper=True).folder / "paper" / "checklist.md"
    described = describe(Study.open(rated), output=rated / "d.md").path.with_name("checklist.md")
    assert described.read_text("utf-8") == written.read_text("utf-8")


def test_checklist_before_any_rating_has_instructions(tmp_path):
    path = describe(Study.open(write_study(tmp_path / "small"))).path.with_name("checklist.md")
    page = path.read_text("utf-8")
    assert "Nobody has rated anything yet." in page
    assert "> **Compare two texts**" in page
    assert page.count("**Not stated.**") == 5


WORDS = {"yes": "Yes", "no": "No"}


@pytest.mark.parametrize(
    ("counts", "rows"),
    [
        ((9, 6, 0), (("Yes", 9), ("No", 6))),
        ((9, 6, 5), (("Yes", 9), ("No", 6), ("no answer", 5))),
        ((9, 4, 0), None),
        ((9, 4, 3), (("Yes", 9), ("any other than: Yes", 7))),
        ((9, 0, 0), None),
        ((4, 0, 0), None),
    ],
)
def test_background_table_hides_small_counts(counts, rows):
    table = tell(counts)
    assert rows == (table and table.rows)


def tell(counts):
    answers = [answer for answer, count in zip((*WORDS, ""), counts, strict=True) for _ in range(count)]
    return tabulate_background_answers("Native?", answers, WORDS)


def test_hidden_background_counts_cannot_be_computed():
    """Whoever knows the rule and the number of people finds two ways at least for every small number."""
    ways = {}
    for counts in product(range(11), repeat=3):
        if table := tell(counts):
            ways.setdefault((sum(counts), table.rows), []).append(counts)
    derived = [
        key
        for key, solutions in ways.items()
        for values in map(set, zip(*solutions, strict=True))
        if len(values) == 1 and 0 < max(values) < 5
    ]
    assert derived == []
    assert len(ways) > 100
