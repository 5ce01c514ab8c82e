"""The request around the messages, in each shape that servers take, and the key it is journalled under."""

import hashlib
import json

import pytest

from guard_eval.rubric import CRITERIA
from guard_eval.study.judge_settings import Judge
from judge.prompt import PROMPT_VERSION, Shape, asks_the_same, messages, request, request_key, schema


def test_the_schema_is_strict_json_schema():
    field = {
        "type": "string",
        "enum": ["A", "tie", "B"],
        "description": "A: Method A is better; tie: Both methods are similar; B: Method B is better",
    }
    assert schema(["fluency", "coherence"]) == {
        "type": "object",
        "properties": {"fluency": field, "coherence": field},
        "required": ["fluency", "coherence"],
        "additionalProperties": False,
    }


def test_the_request_is_a_whole_body(blind):
    judge = Judge(model="gpt-4o-2024-11-20", criteria=["fluency"], max_output_tokens=99)
    body = request(judge, blind(), 7)
    assert body == {
        "model": "gpt-4o-2024-11-20",
        "messages": messages(blind(), ("fluency",), 7),
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema(["fluency"])},
        },
        # SHA-256("7:0") begins with these four bytes; a signed 32-bit seed is half of them
        "seed": int(hashlib.sha256(b"7:0").hexdigest()[:8], 16) // 2,
        "temperature": 0,
        "max_tokens": 99,
    }
    assert request(judge, blind(), 7, output="json_object")["response_format"] == {"type": "json_object"}
    assert "response_format" not in request(judge, blind(), 7, output="text")


@pytest.mark.parametrize("model", ["o3", "o4-mini-2025-04-16", "gpt-5-mini", "openai/o3"])
def test_reasoning_models_get_what_they_take(blind, model):
    body = request(Judge(model=model), blind(), 7)
    assert body["max_completion_tokens"] == 8192  # reasoning counts
    assert not {"temperature", "max_tokens"} & set(body)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-2025-04-14", "olmo-2", "mistralai/o-model", "llama3.1"])
def test_other_models_are_asked_at_temperature_zero(blind, model):
    assert request(Judge(model=model), blind(), 7)["temperature"] == 0


def test_the_key_is_the_hash_of_what_the_study_decides(blind):
    judge = Judge(model="m", criteria=["coherence", "fluency"], max_output_tokens=99)
    whole = ["study", PROMPT_VERSION, ["m", ["fluency", "coherence"], 0.0, None, "auto"], 7]
    whole += [["a prompt", "one text", "another text"], 2]
    first = hashlib.sha256(json.dumps(whole, separators=(",", ":")).encode()).hexdigest()[:52]
    last = hashlib.sha256(b"99").hexdigest()[:12]
    assert request_key(judge, blind(), 7, sample=2) == first + last


@pytest.mark.parametrize(
    "settings",
    [
        {"style": "responses"},
        {"style": "batch"},
        {"criteria": [*CRITERIA][::-1]},
        {"base_url": "http://127.0.0.1:1/v1"},
        {"api_key_env": "KEY"},
        {"timeout": 1.0},
        {"concurrency": 1},
        {"name": "another"},
        {"usd_per_million_input_tokens": 1.0},
        {"temperature": 0.0},
    ],
)
def test_what_is_no_part_of_the_request_does_not_change_its_key(blind, settings):
    one = request_key(Judge(model="m"), blind(presentation=1), 7)
    assert request_key(Judge(model="m", **settings), blind(presentation=2), 7) == one


def test_keys_differ_where_the_study_decides_otherwise(blind):
    judge = Judge(model="m")
    found = [
        request_key(judge, blind(), 7),
        request_key(judge, blind(), 8),
        request_key(judge, blind(), 7, sample=1),
        request_key(judge, blind(), 7, purpose="calibration"),
        request_key(judge, blind(prompt="!"), 7),
        request_key(judge, blind("another text", "one text"), 7),
        request_key(Judge(model="n"), blind(), 7),
        request_key(Judge(model="m", criteria=["fluency"]), blind(), 7),
        request_key(Judge(model="m", max_output_tokens=100), blind(), 7),
        request_key(Judge(model="m", temperature=0.5), blind(), 7),
        request_key(Judge(model="m", samples=2), blind(), 7),
        request_key(Judge(model="m", reasoning_effort="low"), blind(), 7),
        request_key(Judge(model="m", output="text"), blind(), 7),
    ]
    assert len(set(found)) == len(found)
    assert {len(each) for each in found} == {64}


def test_a_changed_token_limit_asks_the_same(blind):
    judge, longer = Judge(model="m"), Judge(model="m", max_output_tokens=100)
    assert asks_the_same(request_key(judge, blind(), 7), request_key(longer, blind(), 7))
    assert not asks_the_same(request_key(judge, blind(), 7), request_key(judge, blind(), 8))


def test_the_responses_dialect_is_a_whole_body(blind):
    judge = Judge(model="o9", criteria=["fluency"], style="responses", reasoning_effort="low")
    body = request(judge, blind(), 7)
    assert set(body) == {"model", "input", "text", "max_output_tokens", "reasoning", "store"}
    assert body["reasoning"] == {"effort": "low"}
    assert body["store"] is False  # the provider need not keep the texts
    form = body["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "verdict", True)
    assert body["max_output_tokens"] == judge.max_output_tokens
    assert request(judge, blind(), 7, output="json_object")["text"] == {"format": {"type": "json_object"}}
    assert "text" not in request(judge, blind(), 7, output="text")


def test_several_samples_are_not_asked_at_temperature_zero(blind):
    assert "temperature" not in request(Judge(model="m", samples=2), blind(), 7)
    assert request(Judge(model="m", samples=2, temperature=0.7), blind(), 7)["temperature"] == 0.7
    assert request(Judge(model="m", reasoning_effort="high"), blind(), 7)["reasoning_effort"] == "high"


def test_without_a_system_message_the_user_says_it_all(blind):
    judge = Judge(model="m")
    (only,) = request(judge, blind(), 7, shape=Shape(without=("system",)))["messages"]
    system, user = request(judge, blind(), 7)["messages"]
    assert only == {"role": "user", "content": f"{system['content']}\n\n{user['content']}"}
