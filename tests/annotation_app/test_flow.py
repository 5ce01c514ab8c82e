"""The rater's way through the page, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import annotation_app
from guard_eval.store import Store

PAGE = str(Path(annotation_app.__file__).with_name("page.py"))

FIRST_WORD = "marigold"
"""What the text by the comparison's first method says; see conftest."""


def visit(token: str = "") -> AppTest:
    page = AppTest.from_file(PAGE, default_timeout=20)
    if token:
        page.query_params["invite"] = token
    return page.run()


def words(page: AppTest) -> str:
    assert not page.exception
    return "\n".join(element.value for element in page.get("html") if not element.value.startswith("<style"))


def press(page: AppTest, key: str) -> AppTest:
    return page.button(key=key).click().run()


def choose(page: AppTest, *choices: str | None) -> AppTest:
    for control, choice in zip(page.button_group, choices, strict=True):
        if choice is not None:
            control.set_value(choice)
    return page


def rate(page: AppTest, *choices: str | None) -> AppTest:
    return press(choose(page, *choices), "save")


def start(built, name: str = "ann") -> AppTest:
    return press(visit(built.tokens[name]), "start")


def first_is_a(page: AppTest) -> bool:
    """Return whether the text by FIRST is shown as continuation A."""
    shown = words(page)
    return shown.index(FIRST_WORD) < shown.index("Continuation B")


def test_without_invite_the_page_asks_for_one(study):
    study()
    page = visit()
    assert "Sign in" in words(page)
    assert [field.label for field in page.text_input] == ["Invite code"]
    assert FIRST_WORD not in words(page)


def test_an_unknown_invite_is_told_so(study):
    study()
    assert "not valid" in words(visit("no-such-token"))


def test_owner_without_raters_is_told_the_command(study):
    study(raters=())
    assert "guard-eval raters STUDY add NAME" in words(visit())


def test_with_raters_the_owner_is_not_told(study):
    study()
    assert "guard-eval raters" not in words(visit())


@pytest.mark.parametrize("pasted", ["  {} ", "http://127.0.0.1:8501/?invite={}"])
def test_pasting_the_code_signs_in(study, pasted: str):
    built = study()
    page = visit()
    page.text_input(key="code").set_value(pasted.format(built.tokens["ann"]))
    page = press(page, "enter")
    assert "What to judge" in words(page)
    assert page.query_params["invite"] == built.tokens["ann"]


def test_instructions_give_the_rubric(study):
    built = study()
    shown = words(visit(built.tokens["ann"]))
    assert "Assesses logical connection between ideas" in shown
    assert "how natural, smooth, and grammatically correct" in shown
    assert "Factuality" not in shown


def test_nothing_is_chosen_beforehand(study):
    page = start(study())
    assert [control.value for control in page.button_group] == [None, None]
    assert [list(control.options) for control in page.button_group] == [
        ["A is better", "Similar", "B is better"]
    ] * 2


def test_a_missing_answer_is_named_and_the_other_kept(study):
    built = study()
    page = rate(start(built), "A", None)
    assert "please choose an answer for Fluency." in words(page)
    assert [control.value for control in page.button_group] == ["A", None]
    assert "Pair 1 of 3" in words(page)
    with built.open() as store:
        assert store.tidy() == []


def test_verdicts_name_the_method_whose_text_was_preferred(study):
    built = study(4)
    page = start(built)
    sides = []
    for _ in range(4):
        first = first_is_a(page)
        sides.append(first)
        # Coherence: always the text by FIRST, wherever it stands. Fluency: always the other one.
        page = rate(page, "A" if first else "B", "B" if first else "A")
    assert "You have compared 4 pairs" in words(page)
    with built.open() as store:
        rows = store.tidy()
    assert len(rows) == 8
    assert {(row.criterion, row.verdict) for row in rows} == {
        ("coherence", built.first),
        ("fluency", built.second),
    }
    assert {row.pair_id for row in rows} == {pair.id for pair in built.pairs}
    assert {(row.rater, row.rater_kind, row.dataset) for row in rows} == {("ann", "person", built.dataset)}
    assert all(row.seconds is not None and 0 <= row.seconds < 60 for row in rows)
    # Slot 0 of positions 0…3 shows `a` first on the even ones.
    assert sorted(sides) == [False, False, True, True]


def test_similar_is_a_tie(study):
    built = study(1)
    rate(start(built), "tie", "tie")
    with built.open() as store:
        assert [row.verdict for row in store.tidy()] == ["tie", "tie"]


def test_saved_is_said_after_saving(study):
    page = rate(start(study()), "A", "B")
    assert '<span class="ge-note" role="status">✓ Saved</span>' in words(page)
    assert "Pair 2 of 3" in words(page)


def test_back_shows_the_saved_answer_and_changing_it_adds_a_revision(study):
    built = study()
    page = start(built)
    first = first_is_a(page)
    before = words(page).partition("Continuation A")[2]
    page = press(rate(page, "A", "tie"), "back")
    assert words(page).partition("Continuation A")[2] == before
    assert "Pair 1 of 3" in words(page)
    assert [control.value for control in page.button_group] == ["A", "tie"]
    page = rate(page, "B", "tie")
    assert "Pair 2 of 3" in words(page)
    with built.open() as store:
        verdicts = {row.criterion: row.verdict for row in store.tidy()}
    assert verdicts == {"coherence": built.second if first else built.first, "fluency": "tie"}


def test_back_keeps_what_was_chosen_but_not_saved(study):
    page = rate(start(study()), "A", "A")
    page = press(choose(page, "B", None), "back")
    page = press(page, "save")
    assert "Pair 2 of 3" in words(page)
    assert [control.value for control in page.button_group] == ["B", None]


def test_the_instructions_can_be_read_again(study):
    page = press(choose(start(study()), "B", None), "instructions")
    assert "What to judge" in words(page)
    page = press(page, "start")
    assert [control.value for control in page.button_group] == ["B", None]


def test_back_is_disabled_on_the_first_pair(study):
    assert start(study()).button(key="back").disabled


def test_back_from_the_end(study):
    page = rate(start(study(1)), "A", "A")
    assert "Thank you" in words(page)
    page = press(page, "back-from-end")
    assert "Pair 1 of 1" in words(page)
    assert [control.value for control in page.button_group] == ["A", "A"]


def test_a_new_visit_goes_on_where_the_last_one_ended(study):
    built = study()
    page = rate(start(built), "A", "B")
    open_pair = words(page).partition("Continuation A")[2]
    again = visit(built.tokens["ann"])
    assert "Pair 2 of 3" in words(again)
    assert words(again).partition("Continuation A")[2] == open_pair


def test_the_same_answer_from_two_windows_is_one_row(study):
    built = study()
    page, other = start(built), start(built)
    rate(page, "A", "B")
    rate(other, "A", "B")
    with built.open() as store:
        rows = store.tidy(include_surplus=True)
    assert sorted(row.criterion for row in rows) == ["coherence", "fluency"]


def test_a_revoked_rater_stops_and_keeps_what_was_saved(study):
    built = study()
    page = rate(start(built), "A", "B")
    with built.open() as store:
        store.revoke("ann")
    page = rate(page, "A", "B")
    assert "withdrawn" in words(page)
    with built.open() as store:
        assert len(store.tidy()) == 2


def test_no_pairs_yet(study):
    page = start(study(0))
    assert "Nothing to compare yet" in words(page)
    assert "Thank you" not in words(page)


def test_a_full_study_hands_out_nothing_more(study):
    built = study(1, raters=("ann", "ben"), slots=1)
    rate(start(built), "A", "A")
    assert "Nothing to compare yet" in words(start(built, "ben"))


def test_a_study_without_database_is_a_calm_page(study, caplog: pytest.LogCaptureFixture):
    built = study()
    (built.folder / "study.db").rename(built.folder / "away.db")
    page = visit(built.tokens["ann"])
    assert "Please try again in a moment" in words(page)
    assert built.tokens["ann"] not in caplog.text
    assert "showing a page failed" in caplog.text
    (built.folder / "away.db").rename(built.folder / "study.db")
    assert "What to judge" in words(press(page, "again"))


def test_a_database_that_vanishes_keeps_the_answers_on_the_form(study, caplog: pytest.LogCaptureFixture):
    built = study()
    page = start(built)
    for name in ("study.db", "study.db-wal", "study.db-shm"):
        if (built.folder / name).exists():
            (built.folder / name).rename(built.folder / f"away-{name}")
    page = rate(page, "A", "B")
    assert "Please try again in a moment" in words(page)
    assert "✓ Saved" not in words(page)
    for path in built.folder.glob("away-*"):
        path.rename(built.folder / path.name.removeprefix("away-"))
    page = press(page, "again")
    assert "could not be saved" in words(page)
    assert [control.value for control in page.button_group] == ["A", "B"]
    page = press(page, "save")
    assert "Pair 2 of 3" in words(page)
    assert FIRST_WORD not in caplog.text


def test_a_failing_save_says_so_and_keeps_the_form(study, monkeypatch: pytest.MonkeyPatch):
    built = study()
    page = choose(start(built), "A", "B")

    def locked(*_args: object, **_options: object) -> None:
        raise OSError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", locked)
        page = press(page, "save")
    assert "could not be saved" in words(page)
    assert 'role="status">✓ Saved' not in words(page)
    assert [control.value for control in page.button_group] == ["A", "B"]
    assert "Pair 2 of 3" in words(press(page, "save"))


def test_six_criteria(study):
    names = ("fluency", "coherence", "factuality", "informativeness", "interestingness", "story_development")
    built = study(1, criteria=names)
    page = rate(start(built), "A", "tie", "B", "A", "tie", None)
    assert "please choose an answer for Story Development." in words(page)
    page = rate(page, *[None] * 5, "B")
    assert "Thank you" in words(page)
    with built.open() as store:
        assert {row.criterion for row in store.tidy()} == set(names)


def test_a_defect_is_a_calm_page_too():
    def script():
        from annotation_app import server

        assert server._calm(RuntimeError("the text of a continuation"))

    page = AppTest.from_function(script).run()
    assert "Please try again in a moment" in words(page)
    assert "continuation" not in words(page)
