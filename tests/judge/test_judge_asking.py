"""What is made of a server's refusals, and of answers that are not of the form asked."""

import json

import pytest

from guard_eval.errors import StudyError
from guard_eval.judge_settings import Judge
from judge.asking import MISSES, Asking
from judge.backend import AskAnew
from judge.parsing import Parsed, Problem
from judge.prompt import key, request
from judge.refusals import Refusal
from judge.shape import Shape, first_shape, shapes


@pytest.fixture
def asking():
    def make(model="m", **settings):
        return Asking(Judge(model=model, criteria=["fluency"], **settings), seed=3)

    return make


def refuse(asking, said, *, status=400, param=None, form=None):
    """Return the shape that is chosen after this refusal, or None where it is of something else."""
    try:
        asking.refused(
            asking.form if form is None else form,
            Refusal(status=status, param=param, said=said, detail=f"HTTP {status}: {said}"),
        )
    except AskAnew:
        return asking.shape
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
def test_a_refusal_of_the_shape_is_told_from_any_other(asking, model, said, status, expected):
    one = asking(model)
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


def test_each_shape_is_tried_once(asking):
    one = asking()
    assert refuse(one, MAX).limit == "max_completion_tokens"
    assert refuse(one, OLD) is None  # back to what was refused: no
    assert refuse(one, "json_schema unknown").output == "json_object"
    assert refuse(one, "json_object unknown").output == "text"
    assert refuse(one, "response_format unknown") is None


def test_many_that_met_the_same_fall_back_once(asking):
    one = asking()
    form = one.form
    for _ in range(5):
        with pytest.raises(AskAnew):
            one.refused(form, Refusal(status=400, param=None, said=MAX, detail="HTTP 400"))
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
def test_what_study_toml_fixes_is_never_given_up_in_silence(asking, settings, said, named):
    with pytest.raises(StudyError, match=named) as caught:
        refuse(asking(**settings), said)
    assert "study.toml" in str(caught.value)
    assert "remove" in str(caught.value)


def test_a_fixed_dialect_stays(asking):
    assert refuse(asking(style="chat"), "only supported in v1/responses", status=404) is None
    assert first_shape(Judge(model="m", style="responses")).path == "/responses"
    assert first_shape(Judge(model="m", style="batch")).path == "/chat/completions"


def completion(content):
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()


def test_a_server_that_ignores_the_form_is_asked_in_plain_text(asking, blind):
    one = asking()
    form = one.question(blind(), sample=0).form
    for count in range(MISSES):
        assert one.shape.output == "json_schema", count
        assert isinstance(one.parse(completion("A is better"), form), Problem)
    assert one.shape.output == "text"
    assert "does not hold to it" in one.notices[0]
    assert isinstance(one.parse(completion("what?"), one.question(blind(), sample=0).form), Problem)
    assert len(one.notices) == 1


@pytest.mark.parametrize("first", ['{"fluency": "A"}', None])
def test_one_answer_of_the_form_proves_the_server_and_a_fixed_form_stays(asking, blind, first):
    one = asking() if first else asking(output="json_schema")
    form = one.question(blind(), sample=0).form
    if first:
        assert isinstance(one.parse(completion(first), form), Parsed)
    for _ in range(3 * MISSES):
        one.parse(completion("A is better"), form)
    assert one.shape.output == "json_schema"


def test_a_block_is_read_by_its_own_comparison_s_code_alone(asking, blind):
    one = asking(output="text")
    mine, other = (one.question(blind(text), sample=0) for text in ("one", "two"))
    lines = json.loads(mine.body)["messages"][1]["content"].rpartition("<verdict-")[2]
    answer = completion("<verdict-" + lines.replace("…", "Both methods are similar"))
    assert one.parse(answer, mine.form).choices == {"fluency": "tie"}
    assert isinstance(one.parse(answer, other.form), Problem)


def test_questions_carry_their_key_and_all_their_shapes_differ(asking, blind):
    judge = Judge(model="m", criteria=["fluency"])
    one = asking()
    question = one.question(blind(), sample=2)
    assert question.key == key(json.loads(question.body), 2)
    assert json.loads(question.body) == request(judge, blind(), 3, sample=2)
    others = one.others(blind(), sample=2)
    assert question.key not in {each.key for each in others}
    assert len({each.key for each in others}) == len(others) >= 3
    names = [shape.name for shape in shapes(judge)]
    assert names[0] == first_shape(judge).name
    assert len(set(names)) == len(names)
