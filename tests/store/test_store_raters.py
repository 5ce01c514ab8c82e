"""Invitation, sign-in and enrolment of raters, and their state."""

import json
import math
from dataclasses import replace

import pytest
from factories import make_gold, prolific_id
from rating import claim_pair, exclude_rater, include_rater, save_choice
from refusals import expect_refusal

from guard_eval.store import Store, notes
from guard_eval.store.handout import claim_pairs
from guard_eval.store.pairs import add_gold_pairs
from guard_eval.store.raters import (
    Enrolment,
    count_free_rater_places,
    decide_about_rater,
    enrol_rater,
    find_rater_by_token,
    get_or_add_rater,
    invite_rater,
    read_rater_progress,
)

ID = prolific_id("somebody")


def test_a_guessed_token_does_not_sign_in(store):
    invite_rater(store, "Ann")
    get_or_add_rater(store, "judge", "model")
    for guess in ("", "Ann", "x" * 10_000, "\x00", "\ud800", "' OR 1=1 --", "é"):
        assert find_rater_by_token(store, guess) is None


def test_the_database_file_holds_no_token(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        _, token = invite_rater(store, "Ann")
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Ann" in everything
    assert token.encode() not in everything


def test_unusual_rater_names_are_stored_unchanged(store):
    names = ["نور", "x" * 200, "=cmd()"]
    for name in names:
        rater, token = invite_rater(store, name)
        assert find_rater_by_token(store, token) == rater
    assert [rater.name for rater in read_rater_progress(store)] == names


def renew_invitation(store, name):
    invite_rater(store, name, renew=True)


UNSEEN = (
    "Ann ",
    " Ben",
    "Ben\n",
    "A\u200bnn",
    "\x00",
    "B\x1b[2Jen",
    "lone \ud800",
    "Bo\u202eb",
    "\u3164",
    "B\u2028n",
)
LIKE_ANN = ("\u0410nn", "\u0391nn", "\uff21\uff2e\uff2e", "A\u0578\u0578", "\u13aann", "\U0001d400nn")
"""Names that look like Ann: with a Cyrillic, Greek, Cherokee or bold A, in full width, or Armenian."""
MODELS = ("gpt-4", "GPT-4o", "claude-sonnet-4", "Llama 3", "meta-llama/Llama-3")
REFUSED = [
    *((invite_rater, [name], "rater's name .*write") for name in ("", "  ", "x" * 201)),
    *((invite_rater, [name], "has invisible characters or outer blanks; remove them") for name in UNSEEN),
    *(
        (invite_rater, [name], "a rater named 'Ann' already exists; choose a name that looks")
        for name in LIKE_ANN
    ),
    *((invite_rater, [name], "is a model's name") for name in MODELS),
    (invite_rater, ["Ann"], "'Ann' already exists; choose"),
    (invite_rater, ["ann"], "a rater named 'Ann' already exists; choose"),
    (invite_rater, ["\uff21nn"], "a rater named 'Ann' already exists; choose"),
    (get_or_add_rater, ["Ann", "model"], "'Ann' is a person, not a model"),
    (renew_invitation, ["Eve"], "no rater named 'Eve'"),
    (renew_invitation, ["judge"], "'judge' is a model, not a person"),
    (renew_invitation, ["out"], "'out' is revoked"),
]


def test_refused_invitations_add_nobody(store):
    _, token = invite_rater(store, "Ann")
    get_or_add_rater(store, "judge", "model")
    invite_rater(store, "out")
    decide_about_rater(store, "out", "revoke", by="owner")
    for function, arguments, message in REFUSED:
        with expect_refusal(message) as refused:
            function(store, *arguments)
        assert str(refused.value).isprintable()
    assert [rater.name for rater in read_rater_progress(store)] == ["Ann", "judge", "out"]
    assert find_rater_by_token(store, token) is not None


def enrol_from_prolific(store, number, plan):
    return enrol_rater(store, prolific_id(number), "prolific", plan)


def rate_pairs(store, who, plan, count):
    for _ in range(count):
        save_choice(store, who, claim_pair(store, who, plan))


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("count", "limits"),
    [
        (6, {"slots": 2}),
        (6, {"slots": 2, "quota": 3}),
        (6, {"slots": 2, "quota": 5}),
        (6, {"slots": 1, "quota": 99}),
        (1, {"slots": 3, "quota": 1}),
        (0, {"slots": 2}),
    ],
)
def test_enrolment_stops_when_no_work_is_open(store, add_new_pairs, plan, count, limits):
    """The number of openings is the slots divided by the pairs of each rater, rounded up."""
    add_new_pairs(count)
    plan = replace(plan, **limits)
    openings = math.ceil(count * plan.slots / min(plan.quota or 99, max(count, 1)))
    for number in range(openings):
        assert count_free_rater_places(store, plan) == openings - number
        assert enrol_from_prolific(store, number, plan).refusal is None
    assert enrol_from_prolific(store, "late", plan) == Enrolment(refusal="full")
    assert len(read_rater_progress(store)) == openings


def test_an_enrolled_rater_can_return_to_a_full_study(store, add_new_pairs, single_plan):
    add_new_pairs(2)
    first = enrol_from_prolific(store, 1, single_plan)
    assert enrol_from_prolific(store, 2, single_plan).refusal == "full"
    second = enrol_from_prolific(store, 1, single_plan)
    assert second.rater == first.rater
    assert find_rater_by_token(store, first.token) == find_rater_by_token(store, second.token) == first.rater
    (row,) = read_rater_progress(store)
    assert (row.source, row.external_id) == ("prolific", prolific_id(1))


def test_another_browser_with_the_same_id_is_refused(store, add_new_pairs, plan):
    add_new_pairs(2)
    first = enrol_rater(store, ID, "prolific", plan, browser_secrets=["secret"])
    stranger = enrol_rater(store, ID, "prolific", plan, browser_secrets=["guess"])
    assert stranger == Enrolment(refusal="elsewhere")
    assert enrol_rater(store, ID, "prolific", plan, browser_secrets=["guess", "secret"]).rater == first.rater


def test_an_absent_rater_frees_a_place_after_one_lease(store, add_new_pairs, single_plan, clock):
    add_new_pairs(4)
    gone = enrol_from_prolific(store, 1, single_plan).rater
    rate_pairs(store, gone, single_plan, 1)
    claim_pairs(store, gone, single_plan)
    clock.advance(minutes=29)
    assert enrol_from_prolific(store, 2, single_plan).refusal == "full"
    clock.advance(minutes=2)
    new = enrol_from_prolific(store, 2, single_plan).rater
    rate_pairs(store, new, single_plan, 3)  # what the first one had open as well
    assert claim_pairs(store, new, single_plan) == claim_pairs(store, gone, single_plan) == []
    assert enrol_from_prolific(store, 3, single_plan).refusal == "full"


def test_an_abandoned_pair_lets_another_person_enrol(store, add_new_pairs, single_plan, clock):
    add_new_pairs(1)
    claim_pairs(store, invite_rater(store, "Ann")[0], single_plan)
    assert count_free_rater_places(store, single_plan) == 0
    clock.advance(hours=1)
    assert enrol_from_prolific(store, 1, single_plan).refusal is None


def test_finished_raters_have_rated_the_gold_pairs_too(store, add_new_pairs, single_plan):
    add_new_pairs(1)
    add_gold_pairs(store, make_gold(1))
    gold = replace(single_plan, gold_every=1)
    who, _ = invite_rater(store, "Ann")
    rate_pairs(store, who, gold, 2)
    notes.write_note(store, who, "finished", '{"rated": 2}')
    assert [(row.state, row.rated) for row in read_rater_progress(store)] == [("finished", 1)]


def test_excluding_a_rater_lets_another_person_enrol(store, add_new_pairs, single_plan, clock):
    add_new_pairs(2)
    who = enrol_from_prolific(store, 1, single_plan).rater
    rate_pairs(store, who, single_plan, 2)
    clock.advance(hours=3)
    assert enrol_from_prolific(store, 2, single_plan).refusal == "full"
    exclude_rater(store, who.name)
    assert enrol_from_prolific(store, 2, single_plan).refusal is None


@pytest.mark.parametrize(
    ("source", "external_id"),
    [
        *(("prolific", text) for text in ("undefined", "null", "{{%PROLIFIC_PID%}}", "test", " ", "0" * 24)),
        *(("prolific", text) for text in (ID[1:], f"{ID}0", f"g{ID[1:]}", "None", "PROLIFIC_PID")),
        ("mturk", "ASSIGNMENT_ID_NOT_AVAILABLE"),
        ("mturk", "${workerId}"),
        ("cloudresearch", "%WORKER_ID%"),
        ("qualtrics", "[%Panelist Id%]"),
        ("sona", "xxxxxx"),
        ("panel", "N/A"),
        ("panel", "<id>"),
    ],
)
def test_a_placeholder_id_is_not_enrolled(store, add_new_pairs, plan, source, external_id):
    add_new_pairs(2)
    with expect_refusal(r"is not an id of|is empty or too long"):
        enrol_rater(store, external_id, source, plan)
    assert read_rater_progress(store) == []
    assert enrol_rater(store, "A1B2C3", "mturk", plan).refusal is None
    assert enrol_rater(store, "https://id.example.org test", "oidc", plan).refusal is None


def test_prolific_ids_ignore_case_and_blanks(store, add_new_pairs, plan):
    add_new_pairs(2)
    first = enrol_rater(store, ID, "prolific", plan, browser_secrets=["b"])
    assert enrol_rater(store, f" {ID.upper()}", "prolific", plan, browser_secrets=["b"]).rater == first.rater


def write_check_note(store, who, *, passed):
    notes.write_note(store, who, "check", json.dumps({"passed": passed}))


def test_a_rater_who_failed_the_check_can_be_included_again(store, ann):
    with expect_refusal("may already rate; name a rater who is excluded or revoked"):
        include_rater(store, "Ann")
    states = []
    for _ in range(2):
        write_check_note(store, ann, passed=False)
        states += [read_rater_progress(store)[0].state]
    decide_about_rater(store, "Ann", "include", by="owner", reason="the question was unclear")
    states += [read_rater_progress(store)[0].state]
    for passed in (False, False, True):
        write_check_note(store, ann, passed=passed)
        states += [read_rater_progress(store)[0].state]
    assert states == ["", "failed the check", "", "", "failed the check", ""]


def test_an_included_rater_signs_in_by_the_old_link(store, add_new_pairs, plan):
    add_new_pairs(1)
    ann, token = invite_rater(store, "Ann")
    decide_about_rater(store, "Ann", "revoke", by="Eve")
    assert json.loads(notes.read_notes(store, kind="revoke")[0].detail)["by"] == "Eve"
    decide_about_rater(store, "Ann", "include", by="Eve", reason="it was Ben who left")
    assert find_rater_by_token(store, token) == ann
    assert len(claim_pairs(store, ann, plan)) == 1
    assert [row.state for row in read_rater_progress(store)] == [""]


@pytest.mark.parametrize("kind", ["consent", "check"])
def test_declined_and_failed_raters_free_their_places(store, add_new_pairs, single_plan, kind):
    add_new_pairs(2)
    gone = enrol_from_prolific(store, 1, single_plan).rater
    assert enrol_from_prolific(store, 2, single_plan).refusal == "full"
    for _ in range(2):
        notes.write_note(store, gone, kind, json.dumps({"passed": False, "agreed": False}))
    assert enrol_from_prolific(store, 2, single_plan).refusal is None


def test_a_person_cannot_have_the_name_of_a_judge(store_url):
    with Store.open(store_url, create=True, declared={"people": "", "judge Solomon": ""}) as store:
        with expect_refusal("'S\u043elomon' is a model's name"):
            invite_rater(store, "S\u043elomon")
        invite_rater(store, "Salomon")
