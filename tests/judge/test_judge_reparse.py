"""The journal read again: nothing is sent, what is read otherwise by now becomes a revision."""

import json

import pytest

from guard_eval.errors import StudyError
from judge.lookup import reparse, requests_changed

pytestmark = pytest.mark.slow


@pytest.fixture
def reread(store, judge, pairs, run):
    """Read the journal again, of a study of three pairs."""
    pairs(3)

    def go():
        return reparse(store, judge, seed=11)

    go.run, go.store = run, store
    return go


def test_reading_again_changes_nothing_and_sends_nothing(reread, server):
    reread.run()
    before = reread.store.tidy()
    done = reread()
    assert (done.answers, done.presentations, done.changed, done.unread) == (6, 6, 0, {})
    assert reread.store.tidy() == before
    assert len(server.asks) == 6


def test_what_could_not_be_read_then_and_can_now_becomes_a_verdict(reread, server, fake, monkeypatch):
    server.act = lambda ask: (
        fake.completion('{"fluency": "A"}') if ask.texts[0].startswith("first") else fake.verdict(ask, "B")
    )
    assert reread.run().failures == {"wrong_schema": 3}
    assert len(reread.store.failures()) == 3

    def lenient(body, names, **_):
        fields = json.loads(json.loads(body)["choices"][0]["message"]["content"])
        return {"coherence": "tie", **fields}

    monkeypatch.setattr("judge.request.parse", lenient)
    done = reread()
    assert (done.answers, done.presentations, done.changed, done.unread) == (12, 6, 3, {})
    assert reread.store.failures() == []
    rows = reread.store.tidy()
    assert len(rows) == 3 * 2 * 2
    assert sum(row.verdict == "tie" for row in rows) == 3


def test_a_failure_stays_one_and_is_counted(reread, server, fake):
    server.act = lambda _: fake.completion("", refusal="no")
    reread.run()
    assert reread().unread == {"refusal": 6}
    assert reread.store.tidy() == []


def test_another_criterion_is_refused(store, judge, pairs, run):
    pairs(1)
    run()
    with pytest.raises(StudyError, match="take back the change"):
        reparse(store, judge.model_copy(update={"criteria": ["fluency"]}), seed=11)


def test_answers_to_other_requests_are_noticed(store, judge, pairs, run):
    pairs(2)
    assert not requests_changed(store, judge, seed=11)
    run()
    assert not requests_changed(store, judge, seed=11)
    assert requests_changed(store, judge, seed=12)
    assert requests_changed(store, judge.model_copy(update={"temperature": 0.5}), seed=11)
    for limit in (100, 4096):  # a larger one is what the command itself advises against cut answers
        assert not requests_changed(store, judge.model_copy(update={"max_output_tokens": limit}), seed=11)
