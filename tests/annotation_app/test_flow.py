"""Rating pairs in the app, without a browser."""

import unicodedata
from dataclasses import replace

import pytest
from app_browser import FIRST_WORD
from app_pages import (
    find_panel,
    go_to_page,
    open_first_pair,
    open_page,
    press_button,
    read_panel_data,
    read_words,
    save_choices,
    send_event,
)

from guard_eval.records import Gold
from guard_eval.store import pairs, raters, verdicts

pytestmark = pytest.mark.slow

CHOICES = {"coherence": "A", "fluency": "B"}


def read_note_details(built, kind):
    return [note.detail for note in built.stored("notes", kind=kind)]


@pytest.mark.parametrize("of_files", [False, True], ids=["generated", "of files"])
def test_messages_to_the_browser_name_no_method_and_no_side(study, of_files):
    """All fields are listed here, so that a new field is reviewed first."""
    assert sorted(read_panel_data(open_first_pair(study(of_files=of_files)))) == [
        *("a", "acknowledged", "b", "counts", "criteria", "done", "drafts", "earlier", "extras", "failed"),
        *("note", "pair", "problem", "prompt", "total", "turn", "where"),
    ]


@pytest.mark.parametrize("of_files", [False, True], ids=["generated", "of files"])
def test_messages_never_reveal_a_gold_pair_or_a_repeat(study, of_files):
    """Texts of the study begin with a space and end with a line break, and gold texts do not."""
    built = study(6, more="gold_every = 2\nrepeats = 2", of_files=of_files)
    expected = {"fluency": "a", "coherence": "a"}
    with built.open() as store:
        for number, worse in enumerate(("Bad cafe\u0301 it is", "Bad\r\nit is\ufeff")):
            pair = replace(built.pairs[0], id=f"gold-{number}", prompt="A letter. ", text_b=worse)
            pairs.add_gold_pairs(
                store, [Gold(pair=replace(pair, text_a="We have arrived."), expected=expected)]
            )
        assert {text[0] for pair in pairs.read_pairs(store) for text in (pair.text_a, pair.text_b)} == {" "}
    page, forms = open_first_pair(built), []
    while find_panel(page) is not None:
        sent = read_panel_data(page)
        for text in (sent["prompt"], sent["a"], sent["b"]):
            assert text == unicodedata.normalize("NFC", text.strip().strip("\ufeff"))
            assert "\r" not in text
        forms.append(tuple((key, type(sent[key])) for key in sent if key != "acknowledged"))
        page = save_choices(page, "A", "B")
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
    page = open_first_pair(built)
    page = send_event(page, event, {"pair": read_panel_data(page)["pair"], **value})
    assert "could not be saved" in read_panel_data(page)["problem"]
    assert built.stored() == built.stored("notes", kind="skip") == []


def test_the_back_button_shows_saved_answers_to_change(study):
    built = study(4)
    page, before = open_first_pair(built), []
    for choice in ("A", "tie", "B"):
        built.age()
        before.append(read_panel_data(page))
        page = save_choices(page, choice, choice, seconds=9)
    page = open_page(built.tokens["ann"])  # another visit reaches the pairs of this one, too
    for current, choice in reversed(list(zip(before, ("A", "tie", "B"), strict=True))):
        page = go_to_page(page, "back")
        after = read_panel_data(page)
        assert {
            field: after[field] for field in ("pair", "prompt", "a", "b", "where")
        }.items() <= current.items()
        assert after["chosen"] == {"coherence": choice, "fluency": choice}
    page = save_choices(go_to_page(page, "back"), "B", "A", seconds=3)  # there is none before the first
    assert read_panel_data(page)["where"] == "Pair 2 of 4"
    assert read_panel_data(go_to_page(page, "latest"))["where"] == "Pair 4 of 4"
    # A change of mind has no duration of its own.
    changed = [(row.criterion, row.seconds) for row in built.stored("history") if row.revision]
    assert changed == [("coherence", None)]


def test_comments_and_problems_are_saved_shown_and_removed(study):
    built = study()
    page = open_first_pair(built)
    remarks = {"comment": " odd \u202e \ud83d end\x00 ", "problems": ["language", "unreadable"]}
    page = save_choices(page, "A", "A", seconds=float("nan"), **remarks)
    assert "comment" not in read_panel_data(page)
    page = go_to_page(page, "back")
    # A limit of characters may have cut an emoji in half.
    assert read_panel_data(page)["comment"] == "odd \u202e ? end\ufffd"
    assert read_panel_data(page)["problems"] == ["language", "unreadable"]
    # Unchanged, the browser sends neither.
    page = go_to_page(save_choices(page, "B", "A", comment=None, problems=None), "back")
    save_choices(page, "B", "A", comment="", problems=[])
    assert read_note_details(built, "comment") == ["odd \u202e ? end\ufffd", ""]
    assert read_note_details(built, "problem") == ["language, unreadable", ""]


def test_answers_given_in_another_tab_are_not_replaced(study):
    """Another server saves newer answers, so the answers on this page are outdated."""
    built = study()
    page = save_choices(open_first_pair(built), "A", "A", base="")
    page = go_to_page(page, "back")
    before = read_panel_data(page)
    with built.open() as store:
        (ann,) = raters.read_rater_progress(store)
        rater = raters.find_rater_by_token(store, built.tokens["ann"])
        verdicts.save_verdict(
            store, before["pair"], {"coherence": "B", "fluency": "B"}, rater=rater, comment="new"
        )
    assert ann.name == rater.name
    page = save_choices(page, "tie", "tie", base=before["base"])
    after = read_panel_data(page)
    assert (after["pair"], after["chosen"]) == (before["pair"], {"coherence": "B", "fluency": "B"})
    assert after["comment"] == "new"
    assert "you answered this pair in another tab or on another device" in after["problem"]
    assert after["failed"] == "one"
    assert {row.revision for row in built.stored("history")} == {0, 1}
    # Now that the newer answers were shown, they may be replaced; what repeats them is saved, too.
    assert (
        "saved"
        in read_panel_data(save_choices(page, "B", "B", base=before["base"], comment="new"))["note"].lower()
    )
    page = go_to_page(page, "back")
    save_choices(page, "tie", "tie", base=read_panel_data(page)["base"])
    assert {row.revision for row in built.stored("history")} == {0, 1, 2}


def test_a_second_submission_from_a_page_replaces_answers(study):
    """The reply to the first press was lost, so the page still shows the state before it."""
    built = study()
    page = open_first_pair(built)
    value = {"pair": read_panel_data(page)["pair"], "base": ""}
    page = send_event(page, "submit", {**value, "press": "x", "choices": CHOICES})
    changed = {"coherence": "tie", "fluency": "tie"}
    page = send_event(page, "submit", {**value, "press": "y", "after": "x", "choices": changed})
    assert "Saved" in read_panel_data(page)["note"]
    assert {row.verdict for row in built.stored()} == {"tie"}


def test_a_repeated_press_saves_one_answer(study):
    built = study()
    page = open_first_pair(built)
    value = {"pair": read_panel_data(page)["pair"], "press": "x", "choices": CHOICES}
    page = send_event(send_event(page, "submit", value), "submit", value)
    assert read_panel_data(page)["where"] == "Pair 2 of 3"
    assert {row.revision for row in built.stored("history")} == {0}


def test_an_older_tab_asks_to_use_the_newer_tab(study):
    built = study()
    page, later = open_first_pair(built), open_page(built.tokens["ann"])
    page = send_event(
        page, "submit", {"pair": read_panel_data(page)["pair"], "press": "x", "choices": CHOICES}
    )
    assert "open in another tab" in read_words(page)
    assert built.stored() == []
    save_choices(later, "B", "B")
    page = press_button(page, "here")
    # What was pressed before is not sent again by itself, and the other tab gives way.
    assert (read_panel_data(page)["where"], read_panel_data(page)["failed"]) == ("Pair 2 of 3", "x")
    assert "open in another tab" in read_words(later.run())
    assert len(built.stored("history")) == 2


def test_answers_with_a_replaced_link_are_not_saved(study):
    built = study()
    page = open_first_pair(built)
    with built.open() as store:
        raters.invite_rater(store, "ann", renew=True)
    assert "withdrawn" in read_words(save_choices(page, "A", "B"))
    assert built.stored() == []


@pytest.mark.parametrize("number", [3, 1])
def test_an_erased_raters_visit_ends(study, number):
    """The rater is on the panel, or on the page that waits for another rater's pair."""
    built = study(number, raters=("ben", "ann"), slots=1)
    open_first_pair(built, "ben")
    page = open_first_pair(built)
    with built.open() as store:
        raters.erase_rater(store, "ann", "owner")
    page = save_choices(page, "A", "B") if find_panel(page) else page.run().run()
    assert "This invite is not valid" in read_words(page)


@pytest.mark.both_databases
def test_answers_are_kept_while_the_database_is_away(study, databases, database_kind, caplog):
    built = study()
    page = open_first_pair(built)
    with databases.away(built.database):
        page = save_choices(page, "A", "B")
        if database_kind == "postgres":
            # the pair stays where it is; a missing file might come back as another one
            assert (read_panel_data(page)["acknowledged"], read_panel_data(page)["failed"]) == (None, "one")
        else:
            assert "Please try again in a moment" in read_words(page)
    if database_kind == "sqlite":
        page = press_button(page, "again")
        assert read_panel_data(page)["failed"] == ""
    assert "could not be saved" in read_panel_data(page)["problem"]
    assert read_panel_data(save_choices(page, "A", "B"))["where"] == "Pair 2 of 3"
    assert FIRST_WORD not in caplog.text


def test_no_answer_is_saved_into_a_replaced_database_file(study, caplog):
    built = study()
    page = open_first_pair(built)
    file = built.folder / "study.db"
    file.rename(file.with_name("old.db"))
    file.write_bytes(file.with_name("old.db").read_bytes())
    assert "Please try again in a moment" in read_words(save_choices(page, "A", "B"))
    assert "start `annotate` again" in caplog.text


def test_a_submission_from_a_lost_session_is_saved(study):
    """After a restart, the first press reaches a session that has shown nothing yet."""
    built = study()
    page = save_choices(open_first_pair(built), "A", "A")
    value = {
        "pair": read_panel_data(page)["pair"],
        "press": "x",
        "choices": {"coherence": "B", "fluency": "B"},
    }
    fresh = open_page(built.tokens["ann"], run=False)
    # The browser still shows what the old session sent, and the panel is called what it was called there.
    fresh._tree = page._tree
    fresh = send_event(fresh, "submit", value)
    assert read_panel_data(fresh)["where"] == "Pair 3 of 3"
    assert len(built.stored()) == 4


def test_skipping_is_refused_after_too_many_skips(study):
    page = open_first_pair(study(6))
    for _ in range(3):
        current = read_panel_data(page)
        page = send_event(page, "skip", {"pair": current["pair"], "problems": ["display"]})
    assert read_panel_data(page)["pair"] == current["pair"]
    assert "You have skipped several pairs" in read_panel_data(page)["problem"]


@pytest.mark.parametrize("is_change", [False, True], ids=["a new pair", "an earlier pair"])
def test_no_answer_is_acknowledged_after_a_failed_commit(study, failing_commits, is_change):
    built = study(4)
    page = save_choices(open_first_pair(built), "A", "A")
    page = go_to_page(page, "back") if is_change else page
    before = read_panel_data(page)
    stored = built.stored("history")
    told = ("pair", "where", "done", "total", "acknowledged")
    with failing_commits():
        failed = read_panel_data(save_choices(page, "B", "B", press="two", base=before.get("base")))
        assert {name: failed[name] for name in told} == {name: before[name] for name in told}
        assert (failed["failed"], failed["note"]) == ("two", "")
        assert "could not be saved" in failed["problem"]
        skipped = read_panel_data(send_event(page, "skip", {"pair": before["pair"], "problems": ["display"]}))
        assert {name: skipped[name] for name in told} == {name: before[name] for name in told}
    assert built.stored("history") == stored
    after = read_panel_data(save_choices(page, "B", "B", press="two", base=before.get("base")))
    assert (after["acknowledged"], after["where"]) == ([before["pair"], "two"], f"Pair {3 - is_change} of 4")
    assert len(built.stored("history")) == len(stored) + 2


def test_a_page_stays_open_after_a_failed_commit(study, failing_commits):
    pages = "[annotation.pages]\nconsent = true\npractice = true\ncheck = true\n"
    page = open_page(study(more=pages).tokens["ann"])
    page = press_button(page, "decline")
    page = press_button(page, "reconsider")
    with failing_commits():
        assert "Before you begin" in read_words(press_button(page, "agree"))
    page = press_button(press_button(page, "agree"), "start")
    with failing_commits():
        assert read_panel_data(save_choices(page, "A", "A"))["where"] == "Practice 1 of 2"
    for _ in range(2):
        page = press_button(save_choices(page, "A", "A"), "next")
    with failing_commits():
        assert "A few short questions" in read_words(press_button(page, "check-0-send"))
