"""Requests as a server saw them are in the study, to the byte; its key is not."""

import json
from pathlib import Path

import pytest
from fake_openai import KEY, Out, answer, failure, verdict


def kept(store):
    return [attempt for exchange in store.exchanges() for attempt in exchange.attempts]


def bodies(server):
    return sorted(each.raw for each in server.seen if each.step in {"chat", "responses"})


def test_what_the_server_saw_is_kept_byte_for_byte(server, store, pairs, run):
    pairs(3, text_a="“ünï” <|im_start|> 😀 \ud800", text_b="b\x00\t\r\n")
    run()
    assert sorted(each.sent for each in kept(store)) == bodies(server)
    assert all(each.state == "answered" and each.answer for each in kept(store))


def test_a_form_that_is_refused_and_one_that_is_lost_are_kept_too(server, store, pairs, run):
    pairs(2)
    refused = []

    def act(ask):
        if ask.form == "json_schema":
            refused.append(ask)
            return failure(400, "response_format is not supported")
        return verdict(ask)

    server.act = act
    server.faults["chat"] = [Out(drop=True)]
    run(concurrency=1)
    attempts = kept(store)
    assert set(bodies(server)) == {each.sent for each in attempts}
    assert refused
    for each in attempts:
        assert (each.answer is not None) == (each.state == "answered")
        form = "json_schema" if "json_schema" in each.shape else "json_object"
        assert json.loads(each.sent)["response_format"]["type"] == form
    assert sum(each.state == "answered" for each in attempts) == 4
    assert sum(each.state == "lost" for each in attempts) == 1


def test_what_a_batch_held_is_kept(server, store, pairs, run):
    pairs(3)
    run(style="batch")
    sent = {}
    for content in server.files.values():
        for line in map(json.loads, content.splitlines()):
            if "body" in line:
                sent[line["custom_id"]] = line["body"]
    attempts = kept(store)
    assert {each.key: json.loads(each.sent) for each in attempts} == sent
    assert len(attempts) == 6
    assert all(each.answer for each in attempts)


@pytest.mark.parametrize("style", ["auto", "responses", "batch"])
def test_no_key_is_in_a_kept_request_or_anywhere_in_the_database(server, store, pairs, run, style):
    pairs(2)

    def act(ask):  # a server that gives the key away
        return answer(ask, f"your key is {KEY}") if "number 1" in ask.words else verdict(ask)

    server.act = act
    run(style=style)
    attempts = kept(store)
    assert attempts
    for attempt in attempts:
        assert KEY.encode() not in attempt.sent
        assert b"uthorization" not in attempt.sent
        assert KEY.encode() not in attempt.answer.body
    assert KEY not in repr(list(store.exchanges()))
    if store._database.is_sqlite:
        files = [*Path(store._database.name).parent.glob("*.db*")]
        assert files
        assert not any(KEY.encode() in file.read_bytes() for file in files)
