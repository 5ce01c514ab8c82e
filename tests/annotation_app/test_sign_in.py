"""The page without a rater, and what is shown when something is wrong."""

import pytest
from app_pages import press, view, visit, words
from streamlit.testing.v1 import AppTest

FIRST_WORD = "marigold"


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
def test_pasting_the_code_signs_in(study, pasted):
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


@pytest.mark.both_databases
def test_a_study_without_database_is_a_calm_page(study, databases, caplog):
    built = study()
    with databases.away(built.database):
        page = visit(built.tokens["ann"])
    assert "Please try again in a moment" in words(page)
    assert built.tokens["ann"] not in caplog.text
    assert "showing a page failed" in caplog.text
    assert view(press(press(page, "again"), "start"))["where"] == "Pair 1 of 3"


def test_a_defect_is_a_calm_page_too():
    def script():
        from annotation_app.server import application as server

        assert server._show_error_page(RuntimeError("the text of a continuation"))

    page = AppTest.from_function(script).run()
    assert "Please try again in a moment" in words(page)
    assert "continuation" not in words(page)
