"""A study judged again from a recording: no key, no network, the same verdicts."""

import json
import socket
from dataclasses import replace

import pytest
from fake_openai import failure, verdict

from guard_eval.errors import StudyError
from guard_eval.store import Store
from judge.replay import Replay, load_recording, save_recording
from judge.run import run_judge

pytestmark = pytest.mark.slow


@pytest.fixture
def other(tmp_path):
    """Open a second study, without any answers."""
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}", create=True) as opened:
        yield opened


@pytest.fixture
def replay(judge, monkeypatch):
    """Judge a study from a recording, where no connection can be made."""

    def go(study, recording, *, seed=11, **settings):
        changed = judge.model_copy(update=settings)
        with monkeypatch.context() as patched:
            patched.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection was made"))
            return run_judge(
                study, changed, seed=seed, environ={}, connect=lambda: Replay(changed, recording, seed=seed)
            )

    return go


def verdicts(store):
    return sorted((row.pair_id, row.slot, row.criterion, row.verdict) for row in store.tidy())


def schemaless(body):
    return failure(400, "response_format is unknown") if "response_format" in body else verdict(body)


@pytest.mark.parametrize(("act", "style"), [(verdict, "chat"), (schemaless, "chat"), (verdict, "responses")])
def test_a_recording_gives_the_same_verdicts_and_costs_nothing(
    *, run, replay, store, other, pairs, server, tmp_path, act, style, pair
):
    for study in (store, other):
        study.add_pairs([pair(number) for number in range(3)])
    server.act = act
    run(style=style)
    path = tmp_path / "answers.jsonl"
    assert save_recording(path, store.answers_of("gpt-4o-2024-11-20")) == 6
    asked = len(server.seen)
    ledger = replay(other, load_recording(path))  # in whatever shape it was asked
    assert (ledger.verdicts, ledger.failures, ledger.cost_usd) == (6, {}, 0)
    assert verdicts(other) == verdicts(store) != []
    assert len(server.seen) == asked
    first, again = (
        sorted(study.answers_of("gpt-4o-2024-11-20"), key=lambda each: each.key) for study in (store, other)
    )
    assert [each.body for each in again] == [each.body for each in first]
    assert {each.backend for each in again} == {"replay"}


def test_what_was_not_recorded_is_a_failure_that_says_so(*, run, replay, store, other, pairs, tmp_path, pair):
    store.add_pairs([pair(number) for number in range(2)])
    other.add_pairs([pair(number) for number in range(3)])
    run()
    path = tmp_path / "answers.jsonl"
    save_recording(path, store.answers_of("gpt-4o-2024-11-20"))
    ledger = replay(other, load_recording(path))
    assert (ledger.verdicts, ledger.failures) == (4, {"unrecorded": 2})
    assert "recorded with another model, server, seed, wording" in other.failures()[0].detail


def test_another_seed_model_or_server_finds_nothing(
    *, run, replay, store, other, pairs, judge, tmp_path, pair
):
    for study in (store, other):
        study.add_pairs([pair(0)])
    run()
    save_recording(path := tmp_path / "answers.jsonl", store.answers_of(judge.model))
    recording = load_recording(path)
    assert replay(other, recording, seed=12).failures == {"unrecorded": 2}
    assert replay(other, recording, model="gpt-4.1-2025-04-14").failures == {"unrecorded": 2}
    assert replay(other, recording, base_url="http://127.0.0.1:9/v1").failures == {"unrecorded": 2}


def test_a_recording_keeps_bytes_that_are_no_text(store, pairs, tmp_path, run, pair):
    store.add_pairs([pair(0)])
    run(orders="one")
    (answer,) = store.answers_of("gpt-4o-2024-11-20")
    odd = replace(answer, body=b"\xff\x00{}")
    path = tmp_path / "answers.jsonl"
    save_recording(path, [answer, odd])
    assert "body_base64" in path.read_text(encoding="utf-8").splitlines()[1]
    recorded = load_recording(path).responses[answer.key]  # the key's last answer counts
    assert (recorded.body, recorded.at, recorded.seconds) == (odd.body, answer.at, answer.seconds)


@pytest.mark.parametrize(
    "line", ["[]", "{}", '{"key": "k", "body": 3}', "nonsense", '{"key": "k", "body_base64": "!"}']
)
def test_a_file_that_is_no_recording_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "answers.jsonl"
    good = json.dumps({"key": "k", "body": "{}", "seconds": 1, "at": "2026-01-01T00:00:00+00:00"})
    path.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(StudyError, match=r"line 2 of"):
        load_recording(path)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path):
    with pytest.raises(StudyError, match="cannot be read"):
        load_recording(tmp_path / "none.jsonl")
    with pytest.raises(StudyError, match="cannot be written"):
        save_recording(tmp_path / "none" / "there.jsonl", [])
