"""The rater's way through the rating, without a browser."""

import unicodedata
from dataclasses import replace

import pytest
from app_browser import FIRST_WORD
from app_pages import panel, press, rate, send, start, turn, view, visit, words

from guard_eval.records import Gold
from guard_eval.store import pairs, raters, verdicts

pytestmark = pytest.mark.slow

CHOICES = {"coherence": "A", "fluency": "B"}


def notes(built, kind):
    return [note.detail for note in built.stored("notes", kind=kind)]


@pytest.mark.parametrize("of_files", [False, True], ids=["generated", "of files"])
def test_messages_to_the_browser_name_no_method_and_no_side(study, of_files):
    """Every name is listed here, so that a new one is looked at before it goes out."""
    assert sorted(view(start(study(of_files=of_files)))) == [
        *("a", "acknowledged", "b", "counts", "criteria", "done", "drafts", "earlier", "extras", "failed"),
        *("note", "pair", "problem", "prompt", "total", "turn", "where"),
    ]


@pytest.mark.parametrize("of_files", [False, True], ids=["generated", "of files"])
def test_messages_never_reveal_a_gold_pair_or_a_repeat(study, of_files):
    """Texts of the study begin with a space and end with a line, as models write them; gold is typed."""
    built = study(6, more="gold_every = 2\nrepeats = 2", of_files=of_files)
    expected = {"fluency": "a", "coherence": "a"}
    with built.open() as store:
        for number, worse in enumerate(("Bad cafe\u0301 it is", "Bad\r\nit is\ufeff")):
            pair = replace(built.pairs[0], id=f"gold-{number}", prompt="A letter. ", text_b=worse)
            pairs.add_gold_pairs(
                store, [Gold(pair=replace(pair, text_a="We have arrived."), expected=expected)]
            )
        assert {text[0] for pair in pairs.read_pairs(store) for text in (pair.text_a, pair.text_b)} == {" "}
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
    ("event", "value"),
    [
        ("submit", {"choices": {"coherence": "A"}}),
        ("submit", {"choices": {**CHOICES, "fluency": "C"}}),
        ("submit", {"choices": CHOICES, "pair": "1"}),
        ("submit", {"choices": CHOICES, "problems": ["nonsense"]}),
        ("submit", {"choices": CHOICES, "comment": "x" * 5001}),
        ("skip", {"problems": []}),
        ("turn", {"to": "nowhere"}),
    ],
)
def test_forged_submissions_are_not_saved(study, event, value):
    built = study()
    page = start(built)
    page = send(page, event, {"pair": view(page)["pair"], **value})
    assert "could not be saved" in view(page)["problem"]
    assert built.stored() == built.stored("notes", kind="skip") == []


def test_the_back_button_shows_saved_answers_to_change(study):
    built = study(4)
    page, before = start(built), []
    for choice in ("A", "tie", "B"):
        built.age()
        before.append(view(page))
        page = rate(page, choice, choice, seconds=9)
    page = visit(built.tokens["ann"])  # another visit reaches the pairs of this one, too
    for current, choice in reversed(list(zip(before, ("A", "tie", "B"), strict=True))):
        page = turn(page, "back")
        after = view(page)
        assert {
            field: after[field] for field in ("pair", "prompt", "a", "b", "where")
        }.items() <= current.items()
        assert after["chosen"] == {"coherence": choice, "fluency": choice}
    page = rate(turn(page, "back"), "B", "A", seconds=3)  # there is none before the first
    assert view(page)["where"] == "Pair 2 of 4"
    assert view(turn(page, "latest"))["where"] == "Pair 4 of 4"
    # A change of mind has no duration of its own.
    changed = [(row.criterion, row.seconds) for row in built.stored("history") if row.revision]
    assert changed == [("coherence", None)]


def test_comments_and_problems_are_saved_shown_and_removed(study):
    built = study()
    page = start(built)
    remarks = {"comment": " odd \u202e \ud83d end\x00 ", "problems": ["language", "unreadable"]}
    page = rate(page, "A", "A", seconds=float("nan"), **remarks)
    assert "comment" not in view(page)
    page = turn(page, "back")
    # A limit of characters may have cut an emoji in half.
    assert view(page)["comment"] == "odd \u202e ? end\ufffd"
    assert view(page)["problems"] == ["language", "unreadable"]
    # Unchanged, the browser sends neither.
    page = turn(rate(page, "B", "A", comment=None, problems=None), "back")
    rate(page, "B", "A", comment="", problems=[])
    assert notes(built, "comment") == ["odd \u202e ? end\ufffd", ""]
    assert notes(built, "problem") == ["language, unreadable", ""]


def test_answers_given_in_another_tab_are_not_replaced(study):
    """As by another server, whose visit this one does not know: what its page showed is out of date."""
    built = study()
    page = rate(start(built), "A", "A", base="")
    page = turn(page, "back")
    before = view(page)
    with built.open() as store:
        (ann,) = raters.read_progress(store)
        rater = raters.find_rater_by_token(store, built.tokens["ann"])
        verdicts.save_verdict(
            store, before["pair"], {"coherence": "B", "fluency": "B"}, rater=rater, comment="new"
        )
    assert ann.name == rater.name
    page = rate(page, "tie", "tie", base=before["base"])
    after = view(page)
    assert (after["pair"], after["chosen"]) == (before["pair"], {"coherence": "B", "fluency": "B"})
    assert after["comment"] == "new"
    assert "you answered this pair in another tab or on another device" in after["problem"]
    assert after["failed"] == "one"
    assert {row.revision for row in built.stored("history")} == {0, 1}
    # Now that the newer answers were shown, they may be replaced; what repeats them is saved, too.
    assert "saved" in view(rate(page, "B", "B", base=before["base"], comment="new"))["note"].lower()
    page = turn(page, "back")
    rate(page, "tie", "tie", base=view(page)["base"])
    assert {row.revision for row in built.stored("history")} == {0, 1, 2}


def test_a_second_submission_from_a_page_replaces_answers(study):
    """Its answer was lost on the way: the page still shows the pair as it was before the first press."""
    built = study()
    page = start(built)
    value = {"pair": view(page)["pair"], "base": ""}
    page = send(page, "submit", {**value, "press": "x", "choices": CHOICES})
    changed = {"coherence": "tie", "fluency": "tie"}
    page = send(page, "submit", {**value, "press": "y", "after": "x", "choices": changed})
    assert "Saved" in view(page)["note"]
    assert {row.verdict for row in built.stored()} == {"tie"}


def test_a_press_that_arrives_twice_is_one_answer(study):
    built = study()
    page = start(built)
    value = {"pair": view(page)["pair"], "press": "x", "choices": CHOICES}
    page = send(send(page, "submit", value), "submit", value)
    assert view(page)["where"] == "Pair 2 of 3"
    assert {row.revision for row in built.stored("history")} == {0}


def test_an_older_tab_says_that_a_newer_one_is_open(study):
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


def test_a_link_that_was_replaced_saves_nothing(study):
    built = study()
    page = start(built)
    with built.open() as store:
        raters.invite_rater(store, "ann", renew=True)
    assert "withdrawn" in words(rate(page, "A", "B"))
    assert built.stored() == []


@pytest.mark.parametrize("number", [3, 1])
def test_an_erased_raters_visit_ends(study, number):
    """On the panel, and on the page that waits for the pair that another rater has open."""
    built = study(number, raters=("ben", "ann"), slots=1)
    start(built, "ben")
    page = start(built)
    with built.open() as store:
        raters.erase_rater(store, "ann", "owner")
    page = rate(page, "A", "B") if panel(page) else page.run().run()
    assert "This invite is not valid" in words(page)


@pytest.mark.both_databases
def test_answers_are_kept_while_the_database_is_away(study, databases, database_kind, caplog):
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


def test_nothing_is_saved_into_a_replaced_file(study, caplog):
    built = study()
    page = start(built)
    file = built.folder / "study.db"
    file.rename(file.with_name("old.db"))
    file.write_bytes(file.with_name("old.db").read_bytes())
    assert "Please try again in a moment" in words(rate(page, "A", "B"))
    assert "start `annotate` again" in caplog.text


def test_a_submission_from_a_lost_session_is_saved(study):
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


def test_skipping_is_refused_after_too_many_skips(study):
    page = start(study(6))
    for _ in range(3):
        current = view(page)
        page = send(page, "skip", {"pair": current["pair"], "problems": ["display"]})
    assert view(page)["pair"] == current["pair"]
    assert "You have skipped several pairs" in view(page)["problem"]


@pytest.mark.parametrize("is_change", [False, True], ids=["a new pair", "an earlier pair"])
def test_nothing_is_acknowledged_after_a_failed_commit(study, failing_commits, is_change):
    built = study(4)
    page = rate(start(built), "A", "A")
    page = turn(page, "back") if is_change else page
    before = view(page)
    stored = built.stored("history")
    told = ("pair", "where", "done", "total", "acknowledged")
    with failing_commits():
        failed = view(rate(page, "B", "B", press="two", base=before.get("base")))
        assert {name: failed[name] for name in told} == {name: before[name] for name in told}
        assert (failed["failed"], failed["note"]) == ("two", "")
        assert "could not be saved" in failed["problem"]
        skipped = view(send(page, "skip", {"pair": before["pair"], "problems": ["display"]}))
        assert {name: skipped[name] for name in told} == {name: before[name] for name in told}
    assert built.stored("history") == stored
    after = view(rate(page, "B", "B", press="two", base=before.get("base")))
    assert (after["acknowledged"], after["where"]) == ([before["pair"], "two"], f"Pair {3 - is_change} of 4")
    assert len(built.stored("history")) == len(stored) + 2


def test_no_other_page_opens_after_a_failed_commit(study, failing_commits):
    pages = "[annotation.pages]\nconsent = true\npractice = true\ncheck = true\n"
    page = visit(study(more=pages).tokens["ann"])
    page = press(page, "decline")
    page = press(page, "reconsider")
    with failing_commits():
        assert "Before you begin" in words(press(page, "agree"))
    page = press(press(page, "agree"), "start")
    with failing_commits():
        assert view(rate(page, "A", "A"))["where"] == "Practice 1 of 2"
    for _ in range(2):
        page = press(rate(page, "A", "A"), "next")
    with failing_commits():
        assert "A few short questions" in words(press(page, "check-0-send"))
