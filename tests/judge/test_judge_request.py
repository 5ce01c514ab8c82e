"""What is made of a server's refusals, and of answers that are not of the form asked."""

import json

import pytest

from guard_eval.errors import StudyError
from guard_eval.store import Showing
from guard_eval.study.judge_settings import Judge
from judge.backend import ShapeChanged
from judge.errors import ServerError
from judge.parsing import Parsed, ParseError
from judge.prompt import Shape, first_shape, request, request_key
from judge.request import MISSES, RequestBuilder
from judge.retry import SAMPLES


@pytest.fixture
def builder():
    def make(model="m", **settings):
        return RequestBuilder(Judge(model=model, criteria=["fluency"], **settings), seed=3)

    return make


def refuse(builder, said, *, status=400, param=None):
    """Return the shape that is chosen after this refusal, or None where it is of something else."""
    try:
        builder.refused(
            builder.shape.name,
            ServerError(status=status, param=param, said=said, detail=f"HTTP {status}: {said}"),
        )
    except ShapeChanged:
        return builder.shape
    return None


MAX = "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead."
OLD = "Unrecognized request argument supplied: max_completion_tokens"
ZERO = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported."
)
SEED = "[{'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]"
ELSEWHERE = "This model is only supported in v1/responses and not in v1/chat/completions."
NO_CHAT = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
TOO_MUCH = "max_tokens is too large: 512. This model supports at most 400 completion tokens"
TOO_LONG = "'max_tokens' is too large: this model's maximum context length is 512 tokens"


@pytest.mark.parametrize(
    ("model", "said", "status", "expected"),
    [
        ("m", "response_format json_schema is not supported", 400, {"output": "json_object"}),
        ("m", "guided decoding is off", 422, {"output": "json_object"}),
        ("m", MAX, 400, {"limit": "max_completion_tokens"}),
        ("o9", OLD, 400, {"limit": "max_tokens"}),
        ("m", ZERO, 400, {"without": ("temperature",)}),
        ("m", SEED, 422, {"without": ("seed",)}),
        ("m", "System role not supported", 400, {"without": ("system",)}),
        ("m", ELSEWHERE, 404, {"dialect": "responses"}),
        ("m", NO_CHAT, 404, {"dialect": "responses"}),
        ("m", "The model `m` does not exist", 404, None),
        ("m", "bad temperature", 400, None),
        ("m", TOO_MUCH, 400, None),
        ("m", TOO_LONG, 400, None),
        ("m", "unknown field", 400, None),
        ("m", "json_schema is not supported", 500, None),
        ("m", "json_schema is not supported", 429, None),
    ],
)
def test_a_refusal_of_the_shape_is_told_from_any_other(builder, model, said, status, expected):
    one = builder(model)
    before = one.shape
    chosen = refuse(one, said, status=status)
    if expected is None:
        assert chosen is None
        assert (one.shape, one.notices) == (before, [])
    else:
        changed = {name: getattr(chosen, name) for name in expected}
        assert changed == expected
        assert len(one.notices) == 1
        assert said in one.notices[0]


def test_each_shape_is_tried_once(builder):
    one = builder()
    assert refuse(one, MAX).limit == "max_completion_tokens"
    assert refuse(one, OLD) is None  # back to what was refused: no
    assert refuse(one, "json_schema unknown").output == "json_object"
    assert refuse(one, "json_object unknown").output == "text"
    assert refuse(one, "response_format unknown") is None


def test_many_that_met_the_same_fall_back_once(builder):
    one = builder()
    shape = one.shape.name
    for _ in range(5):
        with pytest.raises(ShapeChanged):
            one.refused(shape, ServerError(status=400, param=None, said=MAX, detail="HTTP 400"))
    assert one.shape == Shape(limit="max_completion_tokens")
    assert len(one.notices) == 1


@pytest.mark.parametrize(
    ("settings", "said", "named"),
    [
        ({"output": "json_schema"}, "json_schema is unknown", "output = 'json_schema'"),
        ({"temperature": 0.5}, ZERO, "temperature = 0.5"),
        (
            {"reasoning_effort": "low"},
            "Unsupported parameter: 'reasoning_effort'",
            "reasoning_effort = 'low'",
        ),
    ],
)
def test_what_study_toml_fixes_is_never_given_up_in_silence(builder, settings, said, named):
    with pytest.raises(StudyError, match=named) as caught:
        refuse(builder(**settings), said)
    assert "study.toml" in str(caught.value)
    assert "remove" in str(caught.value)


def test_a_fixed_dialect_stays(builder):
    assert refuse(builder(style="chat"), "only supported in v1/responses", status=404) is None
    assert first_shape(Judge(model="m", style="responses")).path == "/responses"
    assert first_shape(Judge(model="m", style="batch")).path == "/chat/completions"


def completion(content):
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()


@pytest.fixture
def showing(blind):
    return lambda text="one text": Showing(blind=blind(text), sample=0)


def read(builder, question, body):
    return builder.parse(body, code=question.code, shape=question.shape)


def test_a_server_that_ignores_the_form_is_asked_in_plain_text(builder, showing):
    one = builder()
    question = one.build(showing())
    for count in range(MISSES):
        assert one.shape.output == "json_schema", count
        assert isinstance(read(one, question, completion("A is better")), ParseError)
    assert one.shape.output == "text"
    assert "does not hold to it" in one.notices[0]
    assert isinstance(read(one, one.build(showing()), completion("what?")), ParseError)
    assert len(one.notices) == 1


@pytest.mark.parametrize("first", ['{"fluency": "A"}', None])
def test_one_answer_of_the_form_proves_the_server_and_a_fixed_form_stays(builder, showing, first):
    one = builder() if first else builder(output="json_schema")
    question = one.build(showing())
    if first:
        assert isinstance(read(one, question, completion(first)), Parsed)
    for _ in range(3 * MISSES):
        read(one, question, completion("A is better"))
    assert one.shape.output == "json_schema"


def test_a_response_to_another_shape_teaches_nothing(builder, showing):
    one = builder()
    question = one.build(showing())
    for _ in range(3 * MISSES):
        one.parse(completion("A is better"), code=question.code, shape=None)
        other = "chat/json_schema/max_completion_tokens"
        one.parse(completion("A is better"), code=question.code, shape=other)
    assert one.shape.output == "json_schema"


def test_a_block_is_read_by_its_own_comparison_s_code_alone(builder, showing):
    one = builder(output="text")
    mine, other = (one.build(showing(text)) for text in ("one", "two"))
    lines = json.loads(mine.body)["messages"][1]["content"].rpartition("<verdict-")[2]
    answer = completion("<verdict-" + lines.replace("…", "Both methods are similar"))
    assert read(one, mine, answer).choices == {"fluency": "tie"}
    assert isinstance(read(one, other, answer), ParseError)


def test_a_question_keeps_its_key_in_every_shape(builder, blind):
    judge = Judge(model="m", criteria=["fluency"])
    one = builder()
    for sample, again in ((0, 0), (0, 2), (1, 0), (1, 1)):
        each = Showing(blind=blind(), sample=sample)
        question = one.build(each, again=again)
        asked = SAMPLES * sample + again
        assert question.key == request_key(judge, blind(), 3, sample=asked) == one.key(each, again=again)
        assert json.loads(question.body) == request(judge, blind(), 3, sample=asked)
    before = one.build(showing := Showing(blind=blind(), sample=0))
    refuse(one, "json_schema unknown")
    after = one.build(showing)
    assert after.key == before.key
    assert after.body != before.body
    assert (before.shape, after.shape) == ("chat/json_schema/max_tokens", "chat/json_object/max_tokens")
