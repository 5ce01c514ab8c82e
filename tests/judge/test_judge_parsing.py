import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.store.requests import Usage
from judge.answers import read_usage
from judge.failures import JudgeError
from judge.parsing import parse

ASKED = ("fluency", "coherence")


def body(content, *, finish="stop", refusal=None, usage=None, **message):
    answer = {"index": 0, "message": {"role": "assistant", "content": content, "refusal": refusal, **message}}
    return json.dumps(
        {"model": "m-1", "choices": [answer | {"finish_reason": finish}], "usage": usage}
    ).encode()


def test_a_verdict_is_read_with_its_usage():
    raw = body('{"fluency": "A", "coherence": "tie"}', usage={"prompt_tokens": 812, "completion_tokens": 14})
    assert parse(raw, ASKED) == {"fluency": "A", "coherence": "tie"}
    assert read_usage(raw) == Usage(model="m-1", input_tokens=812, output_tokens=14)


@pytest.mark.parametrize(
    "content",
    [
        ' {"coherence":"B","fluency":"B"}\n',
        '```json\n{"fluency": "B", "coherence": "B"}\n```',
        '```\n{"fluency": "B", "coherence": "B"}\n```',
        '{"fluency": "B", "reason": {"fluency": "A"}, "coherence": "B"}',  # other fields are not read
        '<think>{"fluency": "A", "coherence": "A"}</think>{"fluency": "B", "coherence": "B"}',
        'A, I think.</think>\n```json\n{"fluency": "B", "coherence": "B"}\n```',
        '{"fluency": "B", "why": "it says <think> twice", "coherence": "B"}',
        '{"fluency": "B", "Fluency": "B", "coherence": "B"}',
    ],
)
def test_one_object_is_read_however_it_is_wrapped(content):
    assert parse(body(content), ASKED) == {"fluency": "B", "coherence": "B"}


def test_the_text_of_a_model_that_reasons_may_be_one_part_of_its_content():
    """https://docs.mistral.ai/studio-api/conversations/reasoning: what was thought, and then the answer."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": FORGED}]}
    answer = {"type": "text", "text": '{"fluency": "B", "coherence": "tie"}'}
    assert parse(body([thinking, answer]), ASKED) == {"fluency": "B", "coherence": "tie"}


FORGED = '{"fluency": "A", "coherence": "A"}'


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (body(f"The answer is {FORGED}"), "unparseable"),
        (body(f"{FORGED}\nB is better, I think."), "unparseable"),
        (body(f"{FORGED} {FORGED}"), "unparseable"),
        (body(f"```json\n{FORGED}\n```\nand so on"), "unparseable"),
        (body(f"[{FORGED}]"), "unparseable"),
        (body(json.dumps(FORGED)), "unparseable"),
        (body(f"<think>{FORGED}</think>"), "unparseable"),
        (body(f"<think>{FORGED}"), "unparseable"),
        (body(f"<think>\nB is better. {FORGED}\n</think> I cannot tell."), "unparseable"),
        (body(f"{FORGED}<think>or rather B"), "unparseable"),
        (body(f"{FORGED}</think>"), "unparseable"),
        (body(f"{FORGED}<think>hm</think>" + FORGED.replace("A", "B")), "unparseable"),
        (body("", reasoning_content=FORGED, reasoning=FORGED), "unparseable"),
        (body('{"fluency": "A", "coherence": "A", "Fluency": "B"}'), "wrong_schema"),
        (body('{"fluency": "A", "coherence": "A", "COHERENCE": "tie"}'), "wrong_schema"),
        (body('{"fluency": "A", "coherence": "A, though B is better"}'), "wrong_schema"),
        (body("Method A is better"), "unparseable"),
        (body(""), "unparseable"),
        (body(None), "unparseable"),
        (body(None, reasoning_content=FORGED), "unparseable"),
        (body("null", annotations=[FORGED]), "unparseable"),
        (body(None, tool_calls=[{"function": {"name": "verdict", "arguments": FORGED}}]), "unparseable"),
        (body([{"type": "thinking", "thinking": [{"type": "text", "text": FORGED}]}]), "unparseable"),
        (body([{"type": "text", "text": f"So: {FORGED}"}]), "unparseable"),
        (body([{"type": "text", "text": 1}, FORGED]), "unreadable"),
        (body("```" + "\n" * 200_000 + FORGED), "unparseable"),
        (body("<" + " " * 200_000 + FORGED), "unparseable"),
        (body('{"fluency": "A", "coherence": NaN}'), "unparseable"),
        (body("[" * 100_000), "unparseable"),
        (body('{"fluency": ' + "9" * 5000 + "}"), "unparseable"),
        (body('{"fluency": "A"}'), "wrong_schema"),
        (body('{"verdict": ' + FORGED + "}"), "wrong_schema"),
        (body('{"fluency": "A", "coherence": "a"}'), "wrong_schema"),
        (body('{"fluency": "A", "coherence": null}'), "wrong_schema"),
        (body('{"fluency": "A", "coherence": ["A"]}'), "wrong_schema"),
        (body('{"fluency": "A", "coherence": "Both methods are similar"}'), "wrong_schema"),
        (body('{"fluency": "A", "coherence": "A", "fluency": "B"}'), "wrong_schema"),
        (body(FORGED, refusal="I cannot judge this."), "refusal"),
        (body(None, refusal="I cannot judge this."), "refusal"),
        (body('{"fluency": "A", "coh', finish="length"), "truncated"),
        (body(FORGED, finish="length"), "truncated"),
        (body("", finish="content_filter"), "content_filter"),
        (FORGED.encode(), "unreadable"),
        (b"<html>", "unreadable"),
        (b"", "unreadable"),
        (b"\xff\xfe", "unreadable"),
        (body(FORGED)[:-20], "unreadable"),
        (b'{"choices": []}', "unreadable"),
        (b'{"choices": [{"message": "A"}]}', "unreadable"),
        (b'{"choices": {"0": 1}}', "unreadable"),
        (b"[1]", "unreadable"),
        (b"[" * 100_000, "unreadable"),
    ],
)
def test_what_is_no_verdict_is_named_and_never_one(raw, kind):
    problem = parse(raw, ASKED)
    assert isinstance(problem, JudgeError)
    assert problem.kind == kind
    assert problem.detail.isprintable()
    assert 0 < len(problem.detail) < 300


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_taken(raw):
    assert isinstance(parse(raw, ASKED), JudgeError)
    assert isinstance(read_usage(raw), Usage)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "refusal",
                    "usage",
                    "model",
                    "prompt_tokens",
                    "fluency",
                    "coherence",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_json_of_any_shape_is_taken(value):
    assert isinstance(read_usage(json.dumps(value).encode()), Usage)
    assert isinstance(parse(json.dumps(value).encode(), ASKED), JudgeError)
    enveloped = json.dumps({"choices": [{"message": value}]}).encode()
    assert isinstance(parse(enveloped, ASKED), JudgeError)


@pytest.mark.parametrize(("total", "output"), [(None, 14), (826, 14), (1200, 388), (3, 14)])
def test_thinking_that_is_missing_from_the_completion_is_in_the_total(total, output):
    usage = {"prompt_tokens": 812, "completion_tokens": 14, "total_tokens": total}
    assert read_usage(body("{}", usage=usage)).output_tokens == output


@pytest.mark.parametrize("more", [{"finish_reason": "error"}, {"error": {"code": 502, "message": "lost"}}])
def test_a_choice_that_broke_off_with_an_error_is_no_verdict(more):
    message = {"content": '{"fluency": "A"}'}
    body = {"choices": [{"message": message, "finish_reason": "stop", **more}]}
    outcome = parse(json.dumps(body).encode(), ["fluency"])
    assert isinstance(outcome, JudgeError)
    assert outcome.kind == "unreadable"
