"""Answers in OpenAI's other dialect, and in the lines of a batch."""

import json

import pytest

from guard_eval.store import Usage
from judge.failures import JudgeError
from judge.parsing import parse
from judge.providers.envelopes import read_error, read_usage

ASKED = ("fluency",)
TEXT = {"type": "output_text", "text": '{"fluency": "B"}', "annotations": []}


def message(*parts, **more):
    return {"type": "message", "role": "assistant", "status": "completed", "content": list(parts), **more}


def response(*output, **more):
    return {"object": "response", "status": "completed", "error": None, "output": list(output), **more}


def raw(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "output",
    [
        [message(TEXT)],
        [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": '{"fluency": "A"}'}]},
            message(TEXT),
        ],
        [message({"type": "output_text", "text": '{"fluency": "A"}'}), message(TEXT)],
        [message({"type": "output_text", "text": '{"fluency":'}, {"type": "output_text", "text": ' "B"}'})],
    ],
)
def test_the_last_message_of_a_response_is_the_answer(output):
    assert parse(raw(response(*output)), ASKED) == {"fluency": "B"}


CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (response(message(TEXT), **CUT), "truncated"),
        (response({"type": "reasoning"}, **CUT), "truncated"),
        (response(message(TEXT), **FILTERED), "content_filter"),
        (response(message({"type": "refusal", "refusal": "I will not."})), "refusal"),
        (response({"type": "reasoning", "summary": []}), "unparseable"),
        (response({"type": "function_call", "arguments": '{"fluency": "A"}'}), "unparseable"),
        (response(message({"type": "output_text", "text": "A"})), "unparseable"),
        (response(message(TEXT), status="failed"), "unreadable"),
        (response(message(TEXT), status="in_progress"), "unreadable"),
        ({"output": "text"}, "unreadable"),
        ({"output": [{"type": "message", "content": 3}]}, "unreadable"),
        ({"output": [3]}, "unreadable"),
    ],
)
def test_a_response_that_is_no_verdict_is_named(body, kind):
    problem = parse(raw(body), ASKED)
    assert isinstance(problem, JudgeError)
    assert problem.kind == kind


COUNTED = Usage(model="m-1", input_tokens=90, output_tokens=7, cached_tokens=64, reasoning_tokens=5)
RESPONSES = {
    "input_tokens": 90,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
}
CHAT = {
    "prompt_tokens": 90,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens": 7,
    "completion_tokens_details": {"reasoning_tokens": 5},
}


@pytest.mark.parametrize("usage", [RESPONSES, CHAT])
def test_usage_is_read_in_either_dialect_and_in_a_batch_s_line(usage):
    body = {"model": "m-1", "usage": usage}
    assert read_usage(raw(body)) == COUNTED
    line = {"id": "batch_req_1", "custom_id": "k", "response": {"status_code": 200, "body": body}}
    assert read_usage(raw(line)) == COUNTED
    assert (
        read_usage(raw({"model": "m-1", "usage": {**usage, **dict.fromkeys(usage, None)}})).cached_tokens
        is None
    )


def test_a_line_of_a_batch_is_read_as_its_answer():
    line = {"custom_id": "k", "response": {"status_code": 200, "body": response(message(TEXT))}}
    assert parse(raw(line), ASKED) == {"fluency": "B"}
    assert parse(raw({**line, "response": None}), ASKED).kind == "unreadable"


def test_a_failed_response_is_an_error_that_came_as_http_200():
    failed = {"object": "response", "status": "failed", "output": [], "error": {"code": "server_error"}}
    assert read_error(raw(failed)) == (500, {"code": "server_error"}, False)
    assert read_error(raw({**failed, "error": {"code": "rate_limit_exceeded"}}))[0] == 429
    assert read_error(raw(response(message(TEXT)))) is None


def test_an_error_beside_an_answer_is_an_error_that_may_be_charged():
    """A router that lost the model on its way may send both; the text may be cut."""
    choice = {"index": 0, "message": {"content": '{"fluency": "B"}'}, "finish_reason": "stop"}
    both = {"choices": [choice], "error": {"code": 502, "message": "lost"}}
    assert read_error(raw(both)) == (502, both["error"], True)
    assert parse(raw(both), ASKED).kind == "unreadable"
    for none in (None, {}, ""):
        assert read_error(raw({**both, "error": none})) is None
        assert parse(raw({**both, "error": none}), ASKED) == {"fluency": "B"}
    counted = {"error": {"message": "lost"}, "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    assert read_error(raw(counted)) == (500, {"message": "lost"}, True)
