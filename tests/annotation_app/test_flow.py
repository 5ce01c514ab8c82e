"""The rater's way through the rating, without a browser."""

import unicodedata
from dataclasses import replace

import pytest
from app_pages import panel, press, rate, send, start, turn, view, visit, words

from annotation_app import rating
from guard_eval.records import Gold
from guard_eval.store import pairs, raters

pytestmark = pytest.mark.slow

FIRST_WORD = "marigold"
"""What the text by the comparison's first method says; see conftest."""

CHOICES = {"coherence": "A", "fluency": "B"}


def first_is_a(page):
    """Return whether the text by FIRST is shown as continuation A."""
    return FIRST_WORD in view(page)["a"]


def notes(built, kind):
    return [note.detail for note in built.stored("notes", kind=kind)]


def test_what_the_browser_gets_names_no_method_and_no_side(study):
    """Every name is listed here, so that a new one is looked at before it goes out."""
    assert sorted(view(start(study()))) == [
        *("a", "acknowledged", "b", "criteria", "done", "drafts", "earlier", "extras", "failed", "note"),
        *("pair", "problem", "prompt", "total", "turn", "where"),
    ]


def test_nothing_in_what_is_sent_tells_a_gold_pair_or_a_repeat(study):
    """Texts of the study begin with a space and end with a line, as models write them; gold is typed."""
    built = study(6, more="gold_every = 2\nrepeats = 2")
    expected = {"fluency": "a", "coherence": "a"}
    with built.open() as store:
        for number, worse in enumerate(("Bad cafe\u0301 it is", "Bad\r\nit is\ufeff")):
            pair = replace(built.pairs[0], id=f"gold-{number}", prompt="A letter. ", text_b=worse)
            pairs.add_gold(store, [Gold(pair=replace(pair, text_a="We have arrived."), expected=expected)])
        assert {text[0] for pair in pairs.read(store) for text in (pair.text_a, pair.text_b)} == {" "}
    page, forms = start(built), []
    while panel(page) is not None:
        sent = view(page)
        for text in (sent["prompt"], sent["a"], sent["b"]):
            assert text == unicodedata.normalize("NFC", text.strip().strip("\ufeff"))
            assert "\r" not in text
        forms.append(tuple((key, type(sent[key])) for key in sent if key != "acknowledged"))
        page = rate(page, "A", "B")
    assert sum(row.role != "study" for row in built.stored("history")) == 2 * (2 + 2)
    assert len(forms) == 10
    assert len(set(forms)) == 1  # the same keys, in the same order


@pytest.mark.parametrize(
    "value",
    [
        {"choices": {"coherence": "A"}},
        {"choices": {**CHOICES, "fluency": "C"}},
        {"choices": CHOICES, "pair": "1"},
        {"choices": CHOICES, "problems": ["nonsense"]},
        {"choices": CHOICES, "comment": "x" * 5001},
        ["nothing that a panel sends"],
    ],
)
def test_what_no_panel_sends_saves_nothing(study, value):
    built = study()
    page = start(built)
    if isinstance(value, dict):
        value = {"pair": view(page)["pair"], "press": "x", **value}
    page = send(page, "submit", value)
    assert view(page)["where"] == "Pair 1 of 3"
    assert built.stored() == []


def test_a_pair_of_somebody_else_is_not_saved(study):
    built = study(raters=("ann", "ben"))
    page, other = start(built), start(built, "ben")
    page = send(page, "submit", {"pair": view(other)["pair"], "choices": CHOICES, "press": "x"})
    assert "could not be saved" in view(page)["problem"]
    assert view(page)["failed"] == "x"
    assert built.stored() == []


def test_verdicts_name_the_method_whose_text_was_preferred(study):
    built = study(4)
    page = start(built)
    for _ in range(4):
        first = first_is_a(page)
        # Coherence: always the text by FIRST, wherever it stands. Fluency: always the other one.
        built.age()
        page = rate(page, "A" if first else "B", "B" if first else "A", seconds=30, active=20)
    assert "you have compared: 4" in words(page)
    rows = built.stored()
    assert len(rows) == 8
    assert {(row.criterion, row.verdict) for row in rows} == {
        ("coherence", built.first),
        ("fluency", built.second),
    }
    assert {row.pair_id for row in rows} == {pair.id for pair in built.pairs}
    assert {(row.rater, row.rater_kind, row.dataset) for row in rows} == {("ann", "person", built.dataset)}
    assert {(row.seconds, row.active_seconds) for row in rows} == {(30, 20)}


@pytest.mark.parametrize(
    ("measured", "stored"),
    [
        ({"seconds": 12.5, "active": 4}, (12.5, 4)),
        ({"seconds": -1}, (None, None)),
        ({"seconds": float("nan"), "active": 5}, (None, 5)),
    ],
)
def test_times_of_a_broken_clock_are_unknown(study, measured, stored):
    built = study(1)
    page = start(built)
    built.age()
    rate(page, "A", "A", **measured)
    assert {(row.seconds, row.active_seconds) for row in built.stored()} == {stored}


def test_back_shows_the_saved_answer_and_changing_it_adds_a_revision(study):
    built = study()
    page = start(built)
    first, before = first_is_a(page), view(page)
    built.age()
    page = turn(rate(page, "A", "tie", seconds=9), "back")
    after = view(page)
    assert {part: after[part] for part in ("pair", "prompt", "a", "b", "where")}.items() <= before.items()
    assert after["chosen"] == {"coherence": "A", "fluency": "tie"}
    assert (before["earlier"], after["earlier"]) == (False, True)
    page = rate(page, "B", "tie", seconds=3)
    assert view(page)["where"] == "Pair 2 of 3"
    verdicts = {row.criterion: (row.verdict, row.seconds) for row in built.stored()}
    # A change of mind has no duration of its own.
    assert verdicts == {"coherence": (built.second if first else built.first, None), "fluency": ("tie", 9)}


def test_back_reaches_the_first_pair_of_an_earlier_visit(study):
    built = study(4)
    page, numbers = start(built), []
    for choice in ("A", "tie", "B"):
        numbers.append(view(page)["pair"])
        page = rate(page, choice, choice)
    page = visit(built.tokens["ann"])
    assert view(page)["where"] == "Pair 4 of 4"
    for number, choice in reversed(list(zip(numbers, ("A", "tie", "B"), strict=True))):
        page = turn(page, "back")
        assert (view(page)["pair"], view(page)["chosen"]["fluency"]) == (number, choice)
    assert view(turn(page, "back"))["where"] == "Pair 1 of 4"
    assert view(turn(page, "latest"))["where"] == "Pair 4 of 4"


def test_comment_and_problem_are_kept_shown_again_and_taken_back(study):
    built = study()
    page = start(built)
    page = rate(page, "A", "A", comment=" odd \u202e end\x00 ", problems=["language", "unreadable"])
    assert "comment" not in view(page)
    page = turn(page, "back")
    assert view(page)["comment"] == "odd \u202e end\ufffd"
    assert view(page)["problems"] == ["language", "unreadable"]
    # Unchanged, the browser sends neither.
    page = turn(rate(page, "B", "A", comment=None, problems=None), "back")
    rate(page, "B", "A", comment="", problems=[])
    assert notes(built, "comment") == ["odd \u202e end\ufffd", ""]
    assert notes(built, "problem") == ["language, unreadable", ""]


def test_the_same_press_twice_is_one_answer(study):
    built = study()
    page = start(built)
    value = {"pair": view(page)["pair"], "press": "x", "choices": CHOICES}
    page = send(send(page, "submit", value), "submit", value)
    assert view(page)["where"] == "Pair 2 of 3"
    assert {(row.criterion, row.revision) for row in built.stored("history")} == {
        ("coherence", 0),
        ("fluency", 0),
    }


def test_of_two_tabs_the_later_one_goes_on_and_the_earlier_one_says_so(study):
    built = study()
    page, later = start(built), visit(built.tokens["ann"])
    page = send(page, "submit", {"pair": view(page)["pair"], "press": "x", "choices": CHOICES})
    assert "open in another tab" in words(page)
    assert built.stored() == []
    rate(later, "B", "B")
    page = press(page, "here")
    # What was pressed before is not sent again by itself, and the other tab gives way.
    assert (view(page)["where"], view(page)["failed"]) == ("Pair 2 of 3", "x")
    assert "open in another tab" in words(later.run())
    assert len(built.stored("history")) == 2


def test_a_revoked_rater_stops_and_keeps_what_was_saved(study):
    built = study()
    page = rate(start(built), "A", "B")
    with built.open() as store:
        raters.revoke(store, "ann")
    assert "The study has ended for you" in words(rate(page, "A", "B"))
    assert "withdrawn" in words(visit(built.tokens["ann"]))
    assert len(built.stored()) == 2


def test_a_link_that_was_replaced_stops_within_half_a_minute(study, monkeypatch):
    built = study()
    page = start(built)
    with built.open() as store:
        raters.invite(store, "ann", renew=True)
    monkeypatch.setattr(rating, "RECOUNT_SECONDS", -1.0)
    assert "withdrawn" in words(rate(page, "A", "B"))
    assert built.stored() == []


def test_a_late_rater_of_a_full_study_reads_that_nothing_is_left(study):
    built = study(1, raters=("ann", "ben"), slots=1)
    assert "Thank you" in words(rate(start(built), "A", "A"))
    page = start(built, "ben")
    assert "Nothing is left to compare" in words(page)
    assert [button.key for button in page.button] == []


@pytest.mark.both_databases
def test_a_database_that_vanishes_loses_nothing(study, databases, database_kind, caplog):
    built = study()
    page = start(built)
    with databases.away(built.database):
        page = rate(page, "A", "B")
        if database_kind == "postgres":
            # the pair stays where it is; a missing file might come back as another one
            assert (view(page)["acknowledged"], view(page)["failed"]) == (None, "one")
        else:
            assert "Please try again in a moment" in words(page)
    if database_kind == "sqlite":
        page = press(page, "again")
        assert view(page)["failed"] == ""
    assert "could not be saved" in view(page)["problem"]
    assert view(rate(page, "A", "B"))["where"] == "Pair 2 of 3"
    assert FIRST_WORD not in caplog.text


def test_nothing_is_saved_into_a_file_that_was_replaced(study, caplog):
    built = study()
    page = start(built)
    file = built.folder / "study.db"
    file.rename(file.with_name("old.db"))
    file.write_bytes(file.with_name("old.db").read_bytes())
    assert "Please try again in a moment" in words(rate(page, "A", "B"))
    assert "start `annotate` again" in caplog.text


def test_a_session_that_was_lost_takes_the_press_too(study):
    """After a restart the first press comes to a session that has shown nothing yet."""
    built = study()
    page = rate(start(built), "A", "A")
    value = {"pair": view(page)["pair"], "press": "x", "choices": {"coherence": "B", "fluency": "B"}}
    fresh = visit(built.tokens["ann"], run=False)
    # The browser still shows what the old session sent, and the panel is called what it was called there.
    fresh._tree = page._tree
    fresh = send(fresh, "submit", value)
    assert view(fresh)["where"] == "Pair 3 of 3"
    assert len(built.stored()) == 4


def test_a_pair_that_cannot_be_judged_is_skipped_with_a_reason(study):
    built = study(4)
    page = start(built)
    first = view(page)
    page = send(page, "skip", {"pair": first["pair"], "problems": [], "comment": "no reason"})
    assert view(page)["pair"] == first["pair"]
    page = send(page, "skip", {"pair": first["pair"], "problems": ["offensive"], "comment": " sad "})
    shown = view(page)
    assert (shown["where"], shown["acknowledged"]) == ("Pair 1 of 3", [first["pair"], "skip"])
    assert shown["note"] == "Skipped: another person gets this pair"
    assert shown["prompt"] != first["prompt"]
    assert (notes(built, "skip"), notes(built, "comment")) == (["offensive"], ["sad"])
    rate(page, "A", "A")
    assert built.stored("raters")[0].rated == 1


def test_who_skips_one_after_the_other_is_asked_to_judge(study):
    page = start(study(6))
    for _ in range(3):
        shown = view(page)
        page = send(page, "skip", {"pair": shown["pair"], "problems": ["display"]})
    assert view(page)["pair"] == shown["pair"]
    assert "You have skipped several pairs" in view(page)["problem"]
