"""A judge's files, checked before anything is sent, and what a `[[judge]]` table may add to requests."""

import json
import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from refusals import expect_refusal

from guard_eval.files.opening import LARGEST_TEXT
from guard_eval.study.criteria_settings import StudyFile
from guard_eval.study.judge_settings import PLACEHOLDERS, Judge, fill_template

EXAMPLE = {"prompt": "p", "a": "x", "b": "y", "verdict": {"fluency": "A", "wit": "tie"}}


@pytest.fixture
def judge(study):
    """Return a function that opens a study whose judge has these settings, with its own file beside it."""

    def open_judge(settings="", text="", **files):
        table = f"model='m', criteria=['fluency', 'wit'], {settings}"
        return study(f"judge=[{{{table.rstrip(', ')}}}]", own__txt=text, **files)

    return open_judge


def lines(*examples):
    return "\n".join(json.dumps(example) for example in examples)


def test_prompt_file_is_read_and_hashed_with_its_study(judge):
    first = judge('prompt = "own.txt"', text="Judge {{criteria}}.\r\n")
    assert first.settings.judge[0].prompt == StudyFile(file="own.txt", text="Judge {{criteria}}.\n")
    assert judge('prompt = "own.txt"', text="Judge {{ criteria }}.").hash != first.hash != judge().hash


def test_hash_includes_the_examples_of_a_judge(judge):
    first = judge('examples = "own.txt"', text=f"\n{lines(EXAMPLE, EXAMPLE)}\n\n")
    assert [example.a for example in first.settings.judge[0].judged_examples] == ["x", "x"]
    assert judge('examples = "own.txt"', text=lines({**EXAMPLE, "a": "z"})).hash != first.hash


def test_a_link_within_the_study_may_be_followed(judge, tmp_path):
    (tmp_path / "study" / "link.txt").symlink_to("own.txt")
    assert judge('prompt = "link.txt"', text="{{criteria}}").settings.judge[0].prompt.text == "{{criteria}}"


def test_too_large_files_are_refused(judge):
    assert judge('prompt = "own.txt"', text="{{criteria}}".ljust(LARGEST_TEXT))
    with expect_refusal(r"own\.txt is larger than 1,048,576 bytes"):
        judge('prompt = "own.txt"', text="{{criteria}}".ljust(LARGEST_TEXT + 1))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "",
            "the prompt has the placeholders []; it needs {{criteria}}, and may have only {{criteria}}, {{ju",
        ),
        ("{{criteria}} {{critera}}", "the prompt has the placeholders ['critera', 'criteria']"),
        ("{{criteria}} {{0.__class__}}", "['0.__class__', 'criteria']"),
        ("{{criteria}} {{criteria!r:>99999999}}", "['criteria', 'criteria!r:>99999999']"),
        ("{{criteria}} {{}}", "['', 'criteria']"),
    ],
)
def test_template_with_wrong_placeholders_is_refused(judge, text, says):
    with expect_refusal(re.escape(says)):
        judge('prompt = "own.txt"', text=text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "list should have at least 1 item"),
        (lines(*[EXAMPLE] * 65), "list should have at most 64 items"),
        ("[]", "example[1]: []: input should be a table with the keys id, prompt, a, b, verdict"),
        (f"{lines(EXAMPLE)}\n{{", "key must be a string at line 2"),
        (lines(EXAMPLE, {**EXAMPLE, "ration": "A"}), "example[2].ration: is not a setting; did you mean 'ra"),
        (lines({"prompt": "p", "a": "x", "verdict": {"wit": "A"}}), "example[1].b: is missing; add it"),
        (lines({**EXAMPLE, "verdict": {"fluency": "a", "wit": "A"}}), "example[1].verdict.fluency: 'a': "),
        (
            lines({**EXAMPLE, "verdict": {"fluency": "A"}}),
            "m: example 1 has no wit, rationale; add every answer",
        ),
        (lines({**EXAMPLE, "rationale": "w" * 1001}), "example[1].rationale: "),
        (lines({**EXAMPLE, "rationale": "so"}, EXAMPLE), "m: example 2 has no rationale; add every answer"),
    ],
)
def test_examples_are_checked_line_by_line(judge, text, says):
    with expect_refusal(re.escape(says)):
        judge('rationale = true, examples = "own.txt"', text=text)


def test_judge_without_study_accepts_file_contents():
    with pytest.raises(ValidationError, match="dictionary or instance of StudyFile"):
        Judge(model="m", prompt="prompt.txt")
    judge = Judge(model="m", prompt=StudyFile(file="p", text="{{criteria}}"))
    assert Judge(**judge.model_dump()) == judge
    with pytest.raises(ValidationError, match="the prompt has the placeholders"):
        Judge(model="m", prompt=StudyFile(file="p", text=""))


@given(st.text(), st.dictionaries(st.sampled_from([*PLACEHOLDERS]), st.text()))
def test_placeholders_in_inserted_text_are_not_filled(text, values):
    values = {name: values.get(name, "{{count}}") for name in PLACEHOLDERS}
    template = "<" + text.replace("{", "(") + ">{{criteria}}|{{ judgments }}|{{count}}|{{metrics}}"
    expected = "|".join(values[name] for name in ("criteria", "judgments", "count", "metrics"))
    assert fill_template(template, values) == "<" + text.replace("{", "(") + ">" + expected


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        *((name, 1, f"'{name}' cannot be set here; ") for name in (
            *("model", "messages", "instructions", "chat_template", "response_format"),
            *("guided_json", "max_tokens", "maxOutputTokens", "temperature", "n", "stream", "tools", "store"),
            *("mcp_servers", "logit_bias", "extra_headers", "api_key", "base_url", "Reasoning_Effort"),
        )),
        ("n", 5, "'n' cannot be set here; remove it"),
        ("service_tier", "priority", "'service_tier' cannot be set here"),
        ("speed", "FAST", "'speed' cannot be set here"),
        ("x", {"y": "sk-0123456789abcdef"}, "'x' cannot be set here"),
        ("x", date(2026, 1, 1), "not a valid JSON value"),
    ],
)  # fmt: skip
def test_request_body_cannot_override_reserved_fields(name, value, says):
    with pytest.raises(ValidationError, match=says):
        Judge(model="m", extra_body={name: value})


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        *(({name: "1"}, f"'{name}' cannot be set here; name a key's variable in api_key_env") for name in (
            *("Authorization", "x-api-key", "Cookie", "Proxy-Authorization", "X-Auth-Token", "My-Secret"),
        )),
        *(({name: "1"}, f"'{name}' cannot be set here; remove it") for name in ("Host", "Content-Length")),
        ({"X-Plain": "Bearer abc"}, "'X-Plain' cannot be set here"),
        ({"X-Plain": "sk-0123456789abcdef"}, "'X-Plain' cannot be set here"),
        ({"Bad Name": "1"}, "should match pattern"),
        ({"X-A": "1\r\nX-B: 2"}, "should match pattern"),
        ({"X-A": "é"}, "should match pattern"),
    ],
)  # fmt: skip
def test_headers_cannot_hold_secrets(headers, says):
    with pytest.raises(ValidationError, match=says):
        Judge(model="m", headers=headers)


def test_harmless_request_fields_are_accepted():
    body = {"top_p": 0.9, "prompt_cache_key": "k", "provider": {"order": ["a"]}, "service_tier": "flex"}
    headers = {"X-Title": "a study", "anthropic-workspace": "w"}
    judge = Judge(model="m", extra_body=body, headers=headers, temperature="default")
    assert (judge.extra_body, judge.headers, judge.temperature) == (body, headers, "default")
    assert judge.headers_affecting_answers == {"anthropic-workspace": "w"}
