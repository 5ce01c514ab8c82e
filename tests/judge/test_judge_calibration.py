"""Pairs whose answer is known: how they are made, asked, kept apart from the study, and read again."""

import json
from collections import Counter

import pytest

from guard_eval.errors import StudyError
from judge.calibration import FILLER, calibrate, left, padded, questions, results, shuffled
from judge.failures import Retry
from judge.run import run_judge

pytestmark = pytest.mark.slow

FAST = Retry(base=0.01, longest=0.02, timeout=5)
TEXT = "The fox ran home. It was late! Nobody saw it come."


@pytest.fixture
def pairs(pair):
    return [
        pair(number, text_a=f"{TEXT} That was day {number}.", text_b=f"A hen sat still on day {number}.")
        for number in range(2)
    ]


@pytest.fixture
def ask(store, judge, environ):
    """Calibrate the judge."""

    def go(**more):
        return calibrate(store, judge, seed=11, retry=FAST, environ=environ, **more)

    go.environ = environ
    go.judge = lambda: run_judge(store, judge, seed=11, retry=FAST, environ=environ)
    go.results = lambda: results(store, judge, seed=11)
    go.left = lambda: left(store, judge, seed=11)
    return go


def reader(ask, fake):
    """A judge that sees identical texts, order of words and length, and is right about all of them."""
    a, b = ask.texts
    if a == b:
        choice = "tie"
    elif sorted(a.split()) == sorted(b.split()):
        choice = "A" if a.endswith(".") and a.split()[0][0].isupper() and "ran" not in b[:9] else "B"
        choice = "A" if a.startswith(("The fox ran", "A hen sat")) else "B"
    else:
        choice = "B" if len(a) > len(b) else "A"
    return fake.completion(json.dumps({"fluency": choice, "coherence": "tie"}))


def test_the_set_is_made_of_the_studys_texts_and_the_seed(pairs):
    made = questions(pairs, seed=3, items=2)
    assert made == questions(pairs[::-1], seed=3, items=2)
    assert made != questions(pairs, seed=4, items=2)
    assert Counter(each.check for each in made) == {
        "identical": 2, "shuffled": 4, "swapped": 4, "padded": 4,
    }  # fmt: skip
    assert len({each.item for each in made}) == 2
    assert {each.blind.presentation for each in made} == {0}
    of = {each.id: each for each in pairs}
    for each in made:
        pair, blind = of[each.item], each.blind
        own = {pair.text_a, pair.text_b}
        target, other = (blind.text_a, blind.text_b) if each.target == "A" else (blind.text_b, blind.text_a)
        assert blind.prompt == pair.prompt
        if each.check == "identical":
            assert target == other
            assert target in own
        elif each.check == "swapped":
            assert (target, other) == (pair.text_a, pair.text_b)
        elif each.check == "shuffled":
            assert target in own
            assert other != target
            assert sorted(other.split()) == sorted(target.split())
        else:
            assert other in own
            assert target.startswith(other)
            assert len(target) > 1.3 * len(other)


def test_padding_says_nothing_new():
    longer = padded(TEXT, seed=1)
    assert longer.removeprefix(TEXT).strip().startswith("The fox ran home.")
    assert sum(sentence in longer for sentence in FILLER) == 2


def test_texts_of_too_few_words_are_not_shuffled(pair):
    assert shuffled("no no no no", seed=1) == "no no no no"
    checks = {each.check for each in questions([pair(0, text_a="yes", text_b="no")], seed=1)}
    assert checks == {"identical", "swapped", "padded"}


def test_a_calibration_is_asked_kept_and_no_part_of_the_study(store, pairs, ask, server, fake):
    store.add_pairs(pairs)
    server.act = lambda one: reader(one, fake)
    assert len(ask.left()) == 2 * 7
    ledger = ask()
    assert (ledger.verdicts, ledger.requests, ledger.failures) == (14, 14, {})
    assert (store.tidy(), store.failures()) == ([], [])
    found = ask.results()
    fluency = {(each.check, each.answers) for each in found if each.criterion == "fluency"}
    assert fluency == {
        ("identical", ("tie",)),
        ("shuffled", ("target", "target")),
        ("swapped", ("other", "other")),
        ("padded", ("other", "other")),
    }
    assert {each.answers for each in found if each.criterion == "coherence"} == {("tie",), ("tie", "tie")}
    assert ask.left() == []
    assert ask().requests == 0
    spent = store.spending()[0]
    assert (spent.requests, spent.answers) == (14, 14)


def test_the_study_is_asked_all_the_same(store, pairs, ask, server):
    store.add_pairs(pairs)
    ask()
    assert ask.judge().requests == 4
    assert len(store.tidy()) == 2 * 2 * 2
    assert len({one.digest for one in server.asks}) == len(server.asks) == 14 + 4


def test_what_failed_is_left_out_and_asked_once_more_where_nothing_came(store, pairs, ask, server, fake):
    store.add_pairs(pairs)
    failed = []

    def act(one):
        if one.texts[0] == one.texts[1]:
            return fake.completion("", refusal="no")
        if not failed or one.digest in failed:
            failed.append(one.digest)
            return fake.failure(500)
        return fake.verdict(one)

    server.act = act
    ledger = ask()
    assert ledger.failures == {"refusal": 2, "server_error": 1}
    found = ask.results()
    assert {each.answers for each in found if each.check == "identical"} == {()}
    assert sum(len(each.answers) < each.asked for each in found if each.check != "identical") == 2  # criteria
    server.act = fake.verdict
    assert ask().requests == 1


def test_another_token_limit_time_out_or_concurrency_keeps_the_calibration(store, judge, pairs, ask, server):
    store.add_pairs(pairs)
    ask()
    before, asked = ask.results(), len(server.asks)
    assert before
    for change in ({"max_output_tokens": 2048}, {"timeout": 99.0}, {"concurrency": 1}):
        other = judge.model_copy(update=change)
        assert results(store, other, seed=11) == before
        assert left(store, other, seed=11) == []
        assert calibrate(store, other, seed=11, retry=FAST, environ=ask.environ).requests == 0
    assert len(server.asks) == asked
    for change in ({"temperature": 0.5}, {"model": "another"}, {"base_url": "http://127.0.0.1:1/v1"}):
        assert results(store, judge.model_copy(update=change), seed=11) == []


def test_what_was_cut_off_is_asked_again_under_a_higher_limit(*, store, judge, pairs, ask, server, fake):
    store.add_pairs(pairs)
    server.act = lambda one: (
        fake.completion("{", finish="length") if one.texts[0] == one.texts[1] else fake.verdict(one)
    )
    assert ask().failures == {"truncated": 2}
    server.act = fake.verdict
    higher = judge.model_copy(update={"max_output_tokens": 2048})
    assert len(left(store, higher, seed=11)) == 2
    ledger = calibrate(store, higher, seed=11, retry=FAST, environ=ask.environ)
    assert (ledger.requests, ledger.verdicts) == (2, 2)
    assert {each.answers for each in results(store, higher, seed=11) if each.check == "identical"} == {
        ("target",)
    }


def test_a_judge_that_was_never_calibrated_has_no_results(store, pairs, ask):
    assert ask.results() == []
    store.add_pairs(pairs)
    assert ask.results() == []


def test_a_calibration_keeps_within_its_budget(store, pairs, ask):
    with pytest.raises(StudyError, match="no pairs yet"):
        ask()
    store.add_pairs(pairs)
    with pytest.raises(StudyError, match="budget"):
        ask(budget_usd=0.012)  # the first request may cost $0.0106, and costs $0.0003
    assert store.spending()[0].usd + store.spending()[0].held_usd <= 0.012


def test_a_calibration_ends_when_everything_fails(store, pairs, ask, server, fake):
    store.add_pairs(pairs)
    server.act = lambda _: fake.completion("", refusal="no")
    with pytest.raises(StudyError, match="failed 10 times in a row, last with refusal"):
        ask()
