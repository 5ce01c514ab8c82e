"""Sign-in by an invite, from Prolific or with an account, and the page for all other visitors."""

import json

import pytest
import streamlit as st
from app_pages import open_page, press_button, read_words
from streamlit.testing.v1 import AppTest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("came_from")]

PERSON = "5f0c0ffee1234567890abcde"
VISIT = {"PROLIFIC_PID": PERSON, "STUDY_ID": "s1", "SESSION_ID": "v1"}


def test_an_unexpected_error_shows_a_calm_page(study):
    study(1)

    def script():
        from annotation_app import server

        assert server.show_error_page(RuntimeError("the text of a continuation"))

    page = AppTest.from_function(script).run()
    assert "Please try again in a moment" in read_words(page)
    assert "continuation" not in read_words(page)


@pytest.fixture
def recruiting(study):
    return lambda settings, **options: study(1, more=f"[annotation.recruitment]\n{settings}", **options)


def read_people(built):
    return [(rater.name, rater.source, rater.external_id) for rater in built.stored("raters")]


def read_arrivals(built):
    return [json.loads(note.detail) for note in built.stored("notes", kind="arrival")]


def test_a_returning_prolific_participant_is_the_same_rater(recruiting):
    built = recruiting("prolific = true", raters=())
    page = open_page(**VISIT)
    assert "What to judge" in read_words(page)
    # Nobody's id stays in the address.
    assert set(page.query_params) == {"invite"}
    open_page(**{**VISIT, "SESSION_ID": "v2"})
    assert read_people(built) == [("P-1", "prolific", PERSON)]
    came = {"source": "prolific", "study": "s1"}
    assert read_arrivals(built) == [{**came, "session": "v1"}, {**came, "session": "v2"}]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "Do you come from Prolific?"),
        ({**VISIT, "PROLIFIC_PID": "{{%PROLIFIC_PID%}}"}, "Do you come from Prolific?"),
        *(
            ({**VISIT, "PROLIFIC_PID": text}, "Do you come from Prolific?")
            for text in ("x" * 65, "undefined", "null", "test", "0" * 24, PERSON[1:], f"{PERSON}0")
        ),
        ({**VISIT, "STUDY_ID": "s2"}, "belongs to another study on Prolific"),
        ({"PROLIFIC_PID": PERSON}, "belongs to another study on Prolific"),
    ],
)
def test_a_visitor_with_a_wrong_link_sees_the_reason(recruiting, parameters, message):
    built = recruiting("prolific = 's1'", raters=())
    assert message in read_words(open_page(**parameters))
    assert read_people(built) == []


class User(dict):
    """The user that Streamlit makes from an identity token."""

    is_logged_in = True


@pytest.mark.parametrize("subject", ["42", "x" * 300])
def test_an_account_is_one_rater_and_its_name_is_not_stored(recruiting, monkeypatch, subject):
    built = recruiting("oidc = true", raters=())
    account = {"iss": "https://id.example.org", "sub": subject, "name": "Ann Example"}
    monkeypatch.setattr(st, "user", User(account))
    for _ in range(2):
        assert "What to judge" in read_words(open_page())
    ((name, source, external_id),) = read_people(built)
    assert (name, source) == ("P-1", "oidc")
    assert external_id == "https://id.example.org 42" or len(external_id) < 50  # an id of a long one
    assert read_arrivals(built) == [{"source": "oidc", "issuer": "https://id.example.org"}]


def test_unknown_visitors_see_the_sign_in_button(recruiting, caplog):
    recruiting("oidc = true", raters=())
    page = open_page()
    assert page.button(key="account").label == "Sign in with your account"
    # Without Authlib, or a provider in secrets.toml, this says so calmly, and the log says why.
    page = press_button(page, "account")
    assert "cannot be reached just now" in read_words(page)
    assert "signing in with an account failed" in caplog.text
