"""Calibration: pairs with known answers are made, asked, and stored apart from the study."""

import json
from collections import Counter

import pytest
from fake_openai import make_chat_answer, make_error, make_verdict
from judge_requests import read_spending

from guard_eval.store import pairs as store_pairs
from guard_eval.store import unblind
from guard_eval.store.judging import calibration, requests
from judge.calibration import FILLER, make_calibration_questions, read_unanswered_calibration_questions

pytestmark = pytest.mark.slow

TEXT = "The fox ran home. It was late! Nobody saw it come."


@pytest.fixture
def pairs(pair):
    return [
        pair(number, text_a=f"{TEXT} That was day {number}.", text_b=f"A hen sat still on day {number}.")
        for number in range(2)
    ]


@pytest.fixture
def calibrate(store, judge, run):
    """Return a function that asks all calibration questions."""

    return lambda: run(questions=read_unanswered_calibration_questions(store, judge, seed=11))


@pytest.fixture
def checks(store):
    def read():
        with store.begin_read() as db:
            return calibration.read_calibration(db)

    return read


def answer_correctly(ask):
    """Answer all calibration questions correctly."""
    a, b = ask.texts
    if a == b:
        choice = "tie"
    elif sorted(a.split()) == sorted(b.split()):
        choice = "A" if a.startswith(("The fox ran", "A hen sat")) else "B"
    else:
        choice = "B" if len(a) > len(b) else "A"
    return make_chat_answer(json.dumps({"fluency": choice, "coherence": "tie"}))


def test_calibration_questions_depend_only_on_texts_and_seed(pairs):
    items = make_calibration_questions(pairs, seed=3)
    assert items == make_calibration_questions(pairs[::-1], seed=3)
    assert items != make_calibration_questions(pairs, seed=4)
    assert Counter(item.check.check for item in items) == {
        "identical": 2, "shuffled": 4, "swapped": 4, "padded": 4,
    }  # fmt: skip
    assert len({item.pair_id for item in items}) == 2
    assert {item.blind.presentation for item in items} == {0}
    pairs_by_id = {pair.id: pair for pair in pairs}
    for item in items:
        pair = pairs_by_id[item.pair_id]
        texts = [pair.text_a, pair.text_b]
        target, other = item.blind.text_a, item.blind.text_b
        if item.check.target == "B":
            target, other = other, target
        assert item.blind.prompt == pair.prompt
        match item.check.check:
            case "identical":
                assert target == other
                assert target in texts
            case "swapped":
                assert [target, other] == texts
            case "shuffled":
                assert target in texts
                assert target != other
                assert sorted(other.split()) == sorted(target.split())
            case "padded":
                assert other in texts
                assert target.startswith(other)
                assert len(target) > 1.3 * len(other)
                assert sum(sentence in target for sentence in FILLER) == 2


def test_calibration_answers_are_stored_apart_from_the_study(*, store, pairs, calibrate, checks, run, server):
    store_pairs.add_pairs(store, pairs)
    server.act = answer_correctly
    counts = calibrate()
    assert (counts.verdicts, counts.requests, dict(counts.failures)) == (14, 14, {})
    with store.begin_read() as db:
        assert (unblind.read_tidy_rows(store), requests.read_question_failures(db)) == ([], {})
    result = checks()
    assert {side for row in result if row["criterion"] != "fluency" for side in row["answers"]} == {"tie"}
    fluency = {row["check"]: row["answers"][-1] for row in result if row["criterion"] == "fluency"}
    assert fluency == {"identical": "tie", "shuffled": "target", "swapped": "other", "padded": "other"}
    assert calibrate().requests == 0
    spent = read_spending(store)
    assert (spent.requests, spent.answers) == (14, 14)
    assert run().requests == 4  # the study is asked all the same
    assert len(unblind.read_tidy_rows(store)) == 2 * 2 * 2
    assert len({request.digest for request in server.asks}) == len(server.asks) == 14 + 4


def test_failed_questions_do_not_count_in_calibration(store, pairs, calibrate, checks, server):
    store_pairs.add_pairs(store, pairs)
    failed = []

    def act(request):
        if request.texts[0] == request.texts[1]:
            return make_chat_answer("", refusal="no")
        if not failed or request.texts in failed:
            failed.append(request.texts)
            return make_error(500)
        return make_verdict(request)

    server.act = act
    counts = calibrate()
    assert {kind: count for (kind, _), count in counts.failures.items()} == {"refusal": 2, "server_error": 1}
    left_out = Counter(row["check"] for row in checks() if len(row["answers"]) < row["orders"])
    assert (left_out.pop("identical"), left_out.total()) == (2 * 2, 2)  # on two criteria
    server.act = make_verdict
    assert calibrate().requests == 1


@pytest.mark.parametrize("act", [answer_correctly, make_verdict])
def test_report_names_a_judge_that_fails_calibration(*, study, pairs, judge_command, guard_eval, server, act):
    """Calibrate a judge that always prefers the first text, and a judge that is always right."""
    lines = '[[judge]]\nmodel = "gpt-4o-2024-11-20"\nname = "sam"\ncriteria = ["fluency"]\n'
    folder = study(lines, pairs)
    server.act = act
    for options in (["--calibrate"], []):
        assert judge_command("--yes", *options).code == 0
    assert guard_eval("report", "s").code == 0
    answer = json.loads((folder / "report" / "report.json").read_text())["answer"]
    failed = (
        "However, the judge sam failed its calibration: it called a text and itself similar in 0 of 2 checks"
        ", preferred a text to its own words in disorder in 0 of 2 checks and gave one verdict on both "
        "orders of a pair in 0 of 2 checks."
    )
    assert (failed in answer) == (act is make_verdict)
    assert ("failed its calibration" in answer) == (act is make_verdict)
