"""What a `[[judge]]` table may add to requests, and what it may not."""

from datetime import date

import pytest
from pydantic import ValidationError

from guard_eval.study.judge_settings import Judge


def made(**settings):
    return Judge(model="m", **settings)


def test_plain_fields_and_headers_are_taken():
    body = {"logprobs": True, "top_logprobs": 3, "provider": {"order": ["a", "b"]}, "top_k": 1}
    headers = {"HTTP-Referer": "https://study.example", "anthropic-beta": "context-1m"}
    judge = made(extra_body=body, headers=headers, top_p=0.9, temperature="default")
    assert (judge.extra_body, judge.headers) == (body, headers)
    assert made(temperature=0.5).temperature == 0.5


@pytest.mark.parametrize(
    "name",
    [
        *("model", "models", "messages", "input", "instructions", "chat_template", "previous_response_id"),
        *("response_format", "guided_json", "text", "max_tokens", "max_completion_tokens", "maxOutputTokens"),
        *("temperature", "top_p", "seed", "n", "stream", "store", "tools", "mcp_servers", "logit_bias"),
        *("extra_body", "extra_headers", "api_key", "base_url", "Reasoning_Effort"),
    ],
)
def test_what_the_program_sets_itself_is_not_overridden(name):
    with pytest.raises(ValidationError, match=f"extra_body cannot contain '{name}'"):
        made(extra_body={name: 1})


@pytest.mark.parametrize(
    "extra", [{"service_tier": "priority"}, {"serviceTier": "PRIORITY"}, {"speed": "fast"}]
)
def test_what_costs_more_than_the_list_is_refused(extra):
    with pytest.raises(ValidationError, match="costs more than the known prices"):
        made(extra_body=extra)
    assert made(extra_body={"service_tier": "flex"}).extra_body


def test_what_json_has_not_is_refused():
    with pytest.raises(ValidationError, match="not a valid JSON value"):
        made(extra_body={"x": date(2026, 1, 1)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer x"),
        ("x-api-key", "1"),
        ("api-key", "1"),
        ("X-Goog-Api-Key", "1"),
        ("Cookie", "a=b"),
        ("Proxy-Authorization", "x"),
        ("X-Auth-Token", "x"),
        ("My-Secret", "x"),
        ("X-Plain", "Bearer abc"),
        ("X-Plain", "sk-0123456789abcdef"),
    ],
)
def test_a_header_carries_no_secret(name, value):
    with pytest.raises(ValidationError, match=r"looks like a secret.*api_key_env"):
        made(headers={name: value})


def test_a_body_carries_no_key():
    with pytest.raises(ValidationError, match=r"extra_body\.x looks like a key.*api_key_env"):
        made(extra_body={"x": {"y": "sk-0123456789abcdef"}})


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Host": "other.example"}, "headers cannot contain 'Host'"),
        ({"Content-Length": "1"}, "headers cannot contain 'Content-Length'"),
        ({"Bad Name": "1"}, "should match pattern"),
        ({"X-A": "1\r\nX-B: 2"}, "should match pattern"),
        ({"X-A": "é"}, "should match pattern"),
        ({"X-A": "1", "x-a": "2"}, "twice"),
    ],
)
def test_a_header_is_one_line_and_not_the_connection_s(headers, words):
    with pytest.raises(ValidationError, match=words):
        made(headers=headers)


@pytest.mark.parametrize(
    "settings", [{"top_p": 0}, {"top_p": 1.5}, {"temperature": 3}, {"temperature": "hot"}]
)
def test_numbers_stay_within_their_limits(settings):
    with pytest.raises(ValidationError):
        made(**settings)
