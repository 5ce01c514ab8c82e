"""Requests: what they hold in each shape, what identifies them, and how a server's refusals change them."""

import contextlib
import hashlib
import json

import pytest
from judge_requests import completion_body, request, request_key

from guard_eval.errors import StudyError
from guard_eval.rubric import CRITERIA
from guard_eval.store import Showing
from guard_eval.study.judge_files import StudyFile
from guard_eval.study.judge_settings import Judge
from judge.backend import ShapeChanged
from judge.failures import SAMPLES, JudgeError
from judge.prompts.prompt import PROMPT_VERSION, prompt_of
from judge.providers.endpoint import provider_of
from judge.providers.errors import ErrorReader, ServerError
from judge.providers.shapes import RequestShape, first_shape, schema
from judge.request import MISSES, RequestBuilder, asks_the_same

EXAMPLE = StudyFile(
    file="e",
    text=json.dumps({"prompt": "p", "a": "x", "b": "y", "verdict": dict.fromkeys(CRITERIA, "A")}),
)


@pytest.fixture
def builder():
    def make(model="m", **settings):
        return RequestBuilder(Judge(model=model, criteria=["fluency"], **settings), seed=3)

    return make


def refuse(builder, words, *, status=400, key="k", page=False):
    """Return the shape that is chosen after this refusal, or None where it is of something else."""
    reader = ErrorReader(provider=provider_of(Judge(model="m", base_url="http://127.0.0.1:1/v1"), {}))
    shape = builder.shape.name
    try:
        with contextlib.suppress(StudyError) if status in (401, 402, 404) else contextlib.nullcontext():
            reader.status(
                status,
                {},
                {"message": words},
                page=page,
                on_error=lambda refusal: builder.refused(key, shape, refusal),
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
    ("model", "reply", "status", "expected"),
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
        ("m", "`temperature` is deprecated for this model.", 400, {"without": ("temperature",)}),
        ("m", "invalid temperature: only 1 is allowed for this model", 400, {"without": ("temperature",)}),
        ("m", 'Unknown name "seed": Cannot find field.', 400, {"without": ("seed",)}),
        ("m", "Failed to initialize samplers: failed to parse grammar", 400, {"output": "json_object"}),
        ("m", "json_schema is not supported", 500, {"output": "json_object"}),
        ("m", "No endpoints found that support response_format", 404, {"output": "json_object"}),
        ("m", "The model `m` does not exist", 404, None),
        ("m", TOO_MUCH, 400, None),
        ("m", TOO_LONG, 400, None),
        ("m", "the request exceeds the available context size, try increasing it", 400, None),
        ("m", "json_schema is not supported", 429, None),
        ("m", "json_schema is not supported", 503, None),
    ],
)
@pytest.mark.parametrize("answered", [True, False])
def test_a_refusal_that_names_a_part_of_the_form_changes_it_at_any_time(
    *, builder, model, reply, status, expected, answered
):
    one = builder(model)
    if answered:
        one.answered(one.shape.name)
    before = one.shape
    chosen = refuse(one, reply, status=status)
    if expected is None:
        assert chosen is None
        assert (one.shape, one.notices) == (before, [])
    else:
        changed = {name: getattr(chosen, name) for name in expected}
        assert changed == expected
        assert len(one.notices) == 1
        assert reply in one.notices[0]


SIMPLEST = RequestShape(output="text", without=("seed", "system", "temperature"))


def shapes(builder, *refusals):
    """Return the shapes in which is asked after each refusal, of the words or of the status."""
    return [refuse(builder, "what?", status=each) or builder.shape for each in refusals]


@pytest.mark.parametrize("status", [400, 415, 422, 501])
def test_where_the_words_name_nothing_simpler_forms_are_tried_once_each(builder, status):
    one = builder()
    first = one.shape
    assert shapes(one, *[status] * 3) == [
        RequestShape(output="json_object"),
        RequestShape(output="text"),
        SIMPLEST,
    ]
    assert refuse(one, "what?", status=status) is None  # it was not the form
    assert one.shape == first
    assert refuse(one, "what?", status=status) is None
    assert one.shape == first
    assert "simpler forms are refused too" in one.notices[-1]


def test_after_the_first_answer_nothing_is_guessed(builder):
    one = builder()
    one.answered(one.shape.name)
    assert [refuse(one, "what?", status=status) for status in (400, 404, 422, 500, 501)] == [None] * 5
    assert (one.shape, one.notices) == (RequestShape(), [])


def test_an_answer_to_a_form_given_up_on_a_guess_takes_it_back(builder):
    """Three go out at once; the first is refused for its text, the second is answered in the strict form."""
    one = builder()
    first = one.shape
    assert refuse(one, "no such text, please").output == "json_object"
    one.answered(first.name)
    assert one.shape == first
    assert refuse(one, "no such text, please") is None


def test_a_form_that_was_answered_in_an_earlier_run_is_the_only_guess(builder):
    one = builder()
    one.answered_before("chat/text/max_tokens/seed")
    assert refuse(one, "what?") == RequestShape(output="text", without=("seed",))
    assert refuse(one, "what?") is None
    strict = builder()
    strict.answered_before(strict.shape.name)
    assert refuse(strict, "what?") is None
    fixed = builder(output="json_schema")
    fixed.answered_before("chat/text/max_tokens/seed")
    assert refuse(fixed, "what?").output == "json_schema"


def test_a_strange_name_of_a_form_in_a_recording_is_none(builder):
    for name in ("", "x", "chat/text", "chat/text/max_tokens/model", "chat/text/max_tokens/messages"):
        one = builder()
        one.answered_before(name)
        assert refuse(one, "what?").output == "json_object"


def test_an_answer_does_not_bring_back_what_the_server_named(builder):
    one = builder()
    first = one.shape
    assert refuse(one, ZERO).without == ("temperature",)
    one.answered(first.name)  # a router's other server takes it
    assert one.shape.without == ("temperature",)


def test_an_error_of_the_server_itself_must_come_twice_for_one_request(builder):
    one = builder()
    assert refuse(one, "oops", status=500, key="first") is None
    assert refuse(one, "oops", status=500, key="second") is None
    assert refuse(one, "oops", status=500, key="first").output == "json_object"


def test_no_such_thing_at_that_address_is_met_by_the_simplest_form_once(builder):
    one = builder()
    assert refuse(one, "No endpoints found that can handle the requested parameters.", status=404) == SIMPLEST
    assert refuse(one, "No endpoints found that can handle the requested parameters.", status=404) is None


def test_a_guess_leaves_what_study_toml_fixes(builder):
    one = builder(output="json_schema", temperature=0.5)
    assert shapes(one, 400, 400) == [
        RequestShape(without=("seed", "system")),
        RequestShape(),
    ]


def test_a_refused_page_is_no_refusal_of_the_form(builder):
    one = builder()
    assert refuse(one, "json_schema is not supported", status=429, page=True) is None
    assert refuse(one, "json_schema is not supported", status=500, page=True) is None


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
            one.refused("k", shape, ServerError(status=400, change="limit", words=MAX, detail="HTTP 400"))
    assert one.shape == RequestShape(limit="max_completion_tokens")
    assert len(one.notices) == 1


@pytest.mark.parametrize(
    ("settings", "reply", "named"),
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
def test_what_study_toml_fixes_is_never_given_up_in_silence(builder, settings, reply, named):
    with pytest.raises(StudyError, match=named) as caught:
        refuse(builder(**settings), reply)
    assert "study.toml" in str(caught.value)
    assert "remove" in str(caught.value)


def test_a_fixed_dialect_stays(builder):
    assert refuse(builder(style="chat"), "only supported in v1/responses", status=404) is None
    assert first_shape(Judge(model="m", style="responses")).path == "/responses"
    assert first_shape(Judge(model="m", style="batch")).path == "/chat/completions"


PROSE = completion_body("A is better")


@pytest.fixture
def read(blind):
    """Read a response to a request in the present shape, or in the shape given."""

    def go(builder, body, text="one text", **shape):
        return builder.parse(
            Showing(blind=blind(text), sample=0), body, **({"shape": builder.shape.name} | shape)
        )

    return go


def test_a_server_that_ignores_the_form_is_asked_in_plain_text(builder, read):
    one = builder()
    for count in range(MISSES):
        assert one.shape.output == "json_schema", count
        assert isinstance(read(one, PROSE), JudgeError)
    assert one.shape.output == "text"
    assert "does not hold to it" in one.notices[0]
    assert isinstance(read(one, PROSE), JudgeError)
    assert len(one.notices) == 1


@pytest.mark.parametrize("first", ['{"fluency": "A"}', None])
def test_one_answer_of_the_form_proves_the_server_and_a_fixed_form_stays(builder, read, first):
    one = builder() if first else builder(output="json_schema")
    if first:
        assert read(one, completion_body(first)) == {"fluency": "A"}
    for _ in range(3 * MISSES):
        read(one, PROSE)
    assert one.shape.output == "json_schema"


def test_a_response_to_another_shape_teaches_nothing(builder, read):
    one = builder()
    for _ in range(3 * MISSES):
        read(one, PROSE, shape=None)
        read(one, PROSE, shape="chat/json_schema/max_completion_tokens")
    assert one.shape.output == "json_schema"


def test_a_block_is_read_by_its_own_comparison_s_code_alone(builder, read, blind):
    one = builder(output="text")
    sent = json.loads(one.build(Showing(blind=blind("one"), sample=0)).body)
    lines = sent["messages"][1]["content"].rpartition("<verdict-")[2]
    answer = completion_body("<verdict-" + lines.replace("…", "Both methods are similar"))
    assert read(one, answer, "one") == {"fluency": "tie"}
    assert isinstance(read(one, answer, "two"), JudgeError)


def test_a_request_keeps_its_key_in_every_shape(builder, blind):
    judge = Judge(model="m", criteria=["fluency"])
    one = builder()
    for sample, again in ((0, 0), (0, 2), (1, 0), (1, 1)):
        each = Showing(blind=blind(), sample=sample)
        built = one.build(each, again=again)
        asked = SAMPLES * sample + again
        assert built.key == request_key(judge, blind(), 3, sample=asked) == one.key(each, again=again)
        assert json.loads(built.body) == request(judge, blind(), 3, sample=asked)
    before = one.build(showing := Showing(blind=blind(), sample=0))
    refuse(one, "json_schema unknown")
    after = one.build(showing)
    assert after.key == before.key
    assert after.body != before.body
    assert (before.shape, after.shape) == ("chat/json_schema/max_tokens", "chat/json_object/max_tokens")


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
        "messages": prompt_of(judge).messages(blind(), 7),
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema(["fluency"])},
        },
        # SHA-256("7:0") begins with these four bytes; a signed 32-bit seed is half of them
        "seed": int(hashlib.sha256(b"7:0").hexdigest()[:8], 16) // 2,
        "temperature": 0,
        "max_tokens": 99,
    }
    loose, bare = (judge.model_copy(update={"output": each}) for each in ("json_object", "text"))
    assert request(loose, blind(), 7)["response_format"] == {"type": "json_object"}
    assert "response_format" not in request(bare, blind(), 7)


@pytest.mark.parametrize("model", ["o3", "o4-mini-2025-04-16", "gpt-5-mini", "openai/o3"])
def test_reasoning_models_get_what_they_take(blind, model):
    body = request(Judge(model=model), blind(), 7)
    assert body["max_completion_tokens"] == 8192  # reasoning counts
    assert not {"temperature", "max_tokens"} & set(body)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-2025-04-14", "olmo-2", "mistralai/o-model", "llama3.1"])
def test_other_models_are_asked_at_temperature_zero(blind, model):
    assert request(Judge(model=model), blind(), 7)["temperature"] == 0


def test_the_key_is_the_hash_of_what_the_study_decides(blind):
    url = "http://gpu:8000/v1"
    judge = Judge(model="m", criteria=["coherence", "fluency"], max_output_tokens=99, base_url=f"{url}/")
    whole = ["study", PROMPT_VERSION, ["m", ["coherence", "fluency"], 0.0, None, "auto", url], 7]
    whole += [["a prompt", "one text", "another text"], 2]
    first = hashlib.sha256(json.dumps(whole, separators=(",", ":")).encode()).hexdigest()[:52]
    last = hashlib.sha256(b"99").hexdigest()[:12]
    assert request_key(judge, blind(), 7, sample=2) == first + last


@pytest.mark.parametrize(
    "settings",
    [
        {"style": "responses"},
        {"style": "batch"},
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
        request_key(Judge(model="m", criteria=[*CRITERIA][::-1]), blind(), 7),
        request_key(Judge(model="m", rationale=True), blind(), 7),
        request_key(Judge(model="m", prompt=StudyFile(file="p", text="Judge {{criteria}}.")), blind(), 7),
        request_key(Judge(model="m", examples=EXAMPLE), blind(), 7),
        request_key(Judge(model="m", max_output_tokens=100), blind(), 7),
        request_key(Judge(model="m", temperature=0.5), blind(), 7),
        request_key(Judge(model="m", samples=2), blind(), 7),
        request_key(Judge(model="m", reasoning_effort="low"), blind(), 7),
        request_key(Judge(model="m", output="text"), blind(), 7),
        # another server may serve the same model in another precision
        request_key(Judge(model="m", base_url="http://127.0.0.1:1/v1"), blind(), 7),
        request_key(Judge(model="m", base_url="http://127.0.0.1:2/v1"), blind(), 7),
    ]
    assert len(set(found)) == len(found)
    assert {len(each) for each in found} == {64}


def test_added_fields_stand_in_the_body_and_in_the_key(blind):
    plain = Judge(model="m")
    judge = Judge(model="m", top_p=0.9, temperature="default", extra_body={"logprobs": True, "top_k": 1})
    body = request(judge, blind(), 7)
    assert (body["top_p"], body["logprobs"], body["top_k"]) == (0.9, True, 1)
    assert "temperature" not in body
    assert list(body)[-1] == "messages"
    changed = (
        {"top_p": 0.9},
        {"extra_body": {"top_k": 1}},
        {"extra_body": {"top_k": 2}},
        {"headers": {"anthropic-beta": "a"}},
        {"temperature": "default"},
    )
    keys = {request_key(plain.model_copy(update=each), blind(), 7) for each in changed}
    assert len(keys | {request_key(plain, blind(), 7)}) == 6
    referer = plain.model_copy(
        update={"headers": {"HTTP-Referer": "https://a.example"}}
    )  # only says who asks
    assert request_key(referer, blind(), 7) == request_key(plain, blind(), 7)
    one, other = ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
    assert request_key(plain.model_copy(update={"extra_body": one}), blind(), 7) == request_key(
        plain.model_copy(update={"extra_body": other}), blind(), 7
    )


def test_a_changed_token_limit_asks_the_same(blind):
    judge, longer = Judge(model="m"), Judge(model="m", max_output_tokens=100)
    assert asks_the_same(request_key(judge, blind(), 7), request_key(longer, blind(), 7))
    assert not asks_the_same(request_key(judge, blind(), 7), request_key(judge, blind(), 8))


def test_the_responses_dialect_is_a_whole_body(blind):
    judge = Judge(model="o9", criteria=["fluency"], style="responses", reasoning_effort="low")
    body = request(judge, blind(), 7)
    assert set(body) == {"model", "input", "text", "max_output_tokens", "reasoning", "store"}
    assert body["reasoning"] == {"effort": "low"}
    assert body["store"] is False  # the server need not keep the texts
    form = body["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "verdict", True)
    assert body["max_output_tokens"] == judge.max_output_tokens
    loose, bare = (judge.model_copy(update={"output": each}) for each in ("json_object", "text"))
    assert request(loose, blind(), 7)["text"] == {"format": {"type": "json_object"}}
    assert "text" not in request(bare, blind(), 7)


def test_several_samples_are_not_asked_at_temperature_zero(blind):
    assert "temperature" not in request(Judge(model="m", samples=2), blind(), 7)
    assert request(Judge(model="m", samples=2, temperature=0.7), blind(), 7)["temperature"] == 0.7
    assert request(Judge(model="m", reasoning_effort="high"), blind(), 7)["reasoning_effort"] == "high"


def test_without_a_system_message_the_user_says_it_all(blind):
    judge = Judge(model="m")
    (only,) = request(judge, blind(), 7, shape=RequestShape(without=("system",)))["messages"]
    system, user = request(judge, blind(), 7)["messages"]
    assert only == {"role": "user", "content": f"{system['content']}\n\n{user['content']}"}
