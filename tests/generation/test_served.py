"""Texts of models behind servers, from a real server on this machine that can fail in every way."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from unittest.mock import MagicMock

import pytest
from llama_server import LlamaServer
from read_files import write_json_lines
from refusals import expect_refusal

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation import served
from guard_eval.generation.command import generate_texts
from guard_eval.generation.served import ServedPlan
from guard_eval.servers import client, workers
from guard_eval.study import Study
from guard_eval.texts.continuations import Shard, reserve_shard
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import find_texts
from guard_eval.texts.systems.served_files import append_row, build_request, read_total_cost

pytestmark = pytest.mark.slow

NAME = "llama.cpp, top-nσ"
STUDY = """
name = "s"
seed = 3
[prompts]
file = "prompts.jsonl"
[generation]
max_new_tokens = 20
[pairs]
compare = [["{name}", "people"]]
[[system]]
name = "people"
file = "prompts.jsonl"
column = "reference"
[[system]]
name = "{name}"
base_url = "{url}"
model = "qwen2.5-7b"
{more}
"""
CHAT = "chat = true\n"
COMPLETIONS = "chat = false\ntemperature = 1.5\nbody = {top_n_sigma = 1, min_p = 0}\n"
PRICED = "usd_per_million_tokens = [1000, 1000.0]\n"
KEY = "sk-NeverToBeSeen0123456789"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(workers, "FIRST_PAUSE_SECONDS", 0.01)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    """A server that writes texts unless a test makes it fail."""
    llama = LlamaServer()
    yield llama
    llama.close()


@pytest.fixture
def study(tmp_path, server):
    """Return a function that opens a study with a served system and a system of texts in a file."""

    def open_study(more=COMPLETIONS, *, prompts=6, name=NAME, url=None):
        rows = [
            {"id": f"p{n}", "prompt": f"Once {n}", "reference": f"there was {n}."} for n in range(prompts)
        ]
        write_json_lines(tmp_path / "prompts.jsonl", rows)
        text = STUDY.format(name=name, url=url or server.url, more=more)
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return Study.open(tmp_path)

    return open_study


def texts(study, name=NAME):
    prompts = read_prompts(study.prompts_path)
    return {key: text.text for key, text in find_texts(study, [name], prompts)[name].items()}


def lines(study):
    (path,) = (study.folder / "texts").glob("*.served.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_served_texts_are_written_once(study, server, tmp_path):
    opened = study()
    result = generate_texts(opened)
    assert (result.existing, result.missing, result.exit_code) == ({NAME: 6}, 0, 0)
    path, _, body = server.bodies[0]
    assert path == "/v1/completions"
    assert (body["top_n_sigma"], body["min_p"], body["temperature"], body["max_tokens"]) == (1, 0, 1.5, 20)
    assert sorted(texts(opened)) == [(f"p{n}", 1) for n in range(6)]
    assert set(" ".join(texts(opened).values()).replace(".", "").split()) <= {"the", "old", "river"}
    row = lines(opened)[0]
    assert (row["model"], row["finish"], row["new_tokens"]) == ("qwen2.5-7b", "eos", 12)
    assert len(row["request"]) == 16
    generate_texts(opened)
    assert len(server.bodies) == 6
    assert not list(tmp_path.rglob("*.requests.jsonl"))  # free requests have no costs


def test_strategy_option_accepts_names_of_systems(study, server):
    with expect_refusal(r"--strategy nope is not a strategy or system of .* choose from: llama"):
        generate_texts(study(), strategy=["nope"])
    assert generate_texts(study(), strategy=[NAME]).lines[0] == f"{NAME}: 6 of 6 texts exist"
    assert generate_texts(study()).lines == (f"{NAME}: 6 of 6 texts exist",)


def test_changed_request_fields_request_texts_again(study, server):
    first = texts(study()) if generate_texts(study()).missing == 0 else {}
    changed = study(COMPLETIONS.replace("top_n_sigma = 1", "top_n_sigma = 4"))
    assert texts(changed) == {}
    generate_texts(changed)
    assert texts(changed) != first
    assert texts(study()) == first
    assert len(server.bodies) == 12


def test_requests_do_not_name_the_system(study, server):
    generate_texts(study(CHAT, name="SECRET NAME"))
    assert len(server.bodies) == 6
    assert "SECRET" not in json.dumps(server.bodies)
    assert server.bodies[0][2]["messages"] == [{"role": "user", "content": "Once 0"}]


def test_two_systems_with_equal_texts_cause_a_warning(study, server):
    server.ignores = {"top_n_sigma"}
    served = f'base_url = "{server.url}"\nmodel = "qwen2.5-7b"\nchat = false\n'
    plain = f'{COMPLETIONS}[[system]]\nname = "plain"\n{served}'
    warnings = generate_texts(study(plain)).warnings
    assert any("wrote the same text for 6 of 6 prompts" in warning for warning in warnings)
    server.ignores = set()
    changed = plain.replace("top_n_sigma = 1", "top_n_sigma = 2")
    assert generate_texts(study(changed)).warnings == ()


def test_thinking_and_refusals_are_counted(study, server):
    server.prefix = "<think>The user wants a story.</think>"
    opened = study(CHAT)
    result = generate_texts(opened)
    assert any("6 with thinking, which is cut out" in line for line in result.lines)
    assert not any("think" in text for text in texts(opened).values())
    refusal = {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]}
    server.act = lambda _number, _body: (200, refusal)
    other = study(CHAT + "temperature = 0.5\n")
    assert any("6 refusals, which are kept" in line for line in generate_texts(other).lines)
    assert set(texts(other).values()) == {"I can't."}


def test_answer_by_another_model_is_reported(study, server):
    server.model = "gpt-2"
    (warning,) = generate_texts(study()).warnings
    assert "gpt-2 answered, although qwen2.5-7b was requested" in warning
    server.model = "qwen2.5-7b-instruct-q4"
    assert generate_texts(study(CHAT)).warnings == ()


def test_many_empty_texts_are_a_warning_with_a_remedy(study, server):
    server.text = lambda _body: "<think>a plan</think>" if len(server.bodies) > 2 else "the old river."
    (warning,) = generate_texts(study("concurrency = 1\n" + CHAT)).warnings
    assert "4 of 6 texts are empty; if the model thinks before it answers, raise generation" in warning


def make_refusal(status, message, **more):
    return status, {"error": {"message": message, **more}}


SLOW_DOWN = make_refusal(429, "slow down")
NO_SEED = make_refusal(400, "Unknown parameter: seed", param="seed")
NO_LIMIT = make_refusal(400, "Unsupported parameter: 'max_tokens' is not supported")
FAULTS = {
    "a lost connection": lambda number, _: (200, None) if number in {0, 3} else None,
    "too many requests": lambda number, _: SLOW_DOWN if number == 1 else None,
    "an error of the server": lambda number, _: (500, {"error": "oops"}) if number in {0, 2} else None,
    "a seed refused": lambda _, body: NO_SEED if "seed" in body else None,
    "a limit refused": lambda _, body: NO_LIMIT if "max_tokens" in body else None,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_temporary_failures_lose_no_text(study, server, fault):
    server.act = fault
    result = generate_texts(study())
    assert (result.existing, result.missing) == ({NAME: 6}, 0)


FATAL = {
    "a key": (make_refusal(401, "Unauthorized"), "requires a key"),
    "a model": (make_refusal(404, "The model does not exist", code="model_not_found"), "no model"),
    "a page": ((200, b"<html><title>Login</title></html>"), "a web page"),
    "credit": (make_refusal(402, "Payment required"), "no credit left"),
}


@pytest.mark.parametrize(("reply", "words"), FATAL.values(), ids=FATAL)
def test_lasting_failures_end_the_run_with_a_reason(study, server, reply, words):
    server.act = lambda _number, _body: reply
    try:
        said = "\n".join(generate_texts(study()).lines)
    except StudyError as error:
        said = str(error)
    assert words in said


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": []},
        {"text": "beside the key", "usage": {"prompt_tokens": 9, "completion_tokens": 0}, "choices": None},
        {"choices": [{"text": 42, "finish_reason": "stop"}]},
        b'{"choices": [{"text": "cut',
    ],
)
def test_paid_answer_without_a_text_is_kept_and_not_repeated(study, server, reply):
    server.act = lambda number, _body: (200, reply) if number == 2 else None
    opened = study(COMPLETIONS + PRICED)
    result = generate_texts(opened, budget=5)
    assert (result.existing, result.missing, result.exit_code) == ({NAME: 5}, 1, 3)
    words = reply.decode() if isinstance(reply, bytes) else json.dumps(reply)
    assert f"  1 not written: unreadable (no text: {words})" in result.lines
    (file,) = (opened.folder / "texts").glob("*.unreadable.jsonl")
    assert json.loads(file.read_text())["answer"] == words
    hint = f"  answers without a text: 1; to request these texts again, delete {file}"
    assert hint in result.lines
    second_run = generate_texts(opened, budget=5)
    assert (len(server.bodies), second_run.missing, second_run.exit_code) == (6, 1, 3)
    assert hint in second_run.lines
    file.unlink()
    assert generate_texts(opened, budget=5).existing == {NAME: 6}
    highest = ServedPlan(study=opened, system=opened.settings.systems[NAME], prompts=()).compute_max_cost
    prompt = read_prompts(opened.prompts_path)[2]
    body = build_request(opened, opened.settings.systems[NAME], prompt, 1)
    assert read_total_cost(opened) == 6 * 22_000_000 + highest(body)


def test_too_large_answer_is_not_requested_again(study, server, monkeypatch):
    monkeypatch.setattr(client, "LARGEST_RESPONSE", 1000)
    reply = {"choices": [{"text": "a" * 200_000, "finish_reason": "stop"}]}
    server.act = lambda number, _body: (200, reply) if number == 2 else None
    opened = study()
    assert [generate_texts(opened).missing for _ in range(2)] == [1, 1]
    assert len(server.bodies) == 6


def test_lone_request_without_an_answer_in_time_is_not_repeated(study, server):
    server.delay = 1.0
    assert generate_texts(study("timeout = 0.2\n" + CHAT, prompts=1)).missing == 1
    assert len(server.bodies) == 1


@pytest.mark.parametrize("reply", [{"detail": "the model is loading"}, b"null", b""])
def test_reply_that_is_no_answer_is_requested_again(study, server, reply):
    server.act = lambda number, _body: (200, reply) if number == 2 else None
    opened = study(COMPLETIONS + PRICED)
    assert generate_texts(opened, budget=5).missing == 1
    assert not list((opened.folder / "texts").glob("*.unreadable.jsonl"))
    assert generate_texts(opened, budget=5).existing == {NAME: 6}


def test_paid_answers_wait_until_the_disk_has_space(study, server, monkeypatch):
    """The disk is full for a moment after three requests."""
    full_until = math.inf

    def append_unless_full(*arguments):
        nonlocal full_until
        if len(server.bodies) >= 3:
            full_until = min(full_until, time.monotonic() + 0.3)
            if time.monotonic() < full_until:
                raise StudyError("cannot write: No space left on device")
        append_row(*arguments)

    server.delay = 0.05
    monkeypatch.setattr(served, "append_row", append_unless_full)
    monkeypatch.setattr(workers, "STORE_PAUSES_SECONDS", [0.1] * 6)
    reporter = MagicMock()
    with progress.use_reporter(reporter):
        assert generate_texts(study()).existing == {NAME: 6}
    assert len(server.bodies) == 6
    reporter.warn.assert_called_once()


def test_run_without_new_texts_proposes_generate_again(study, server):
    server.act = lambda _number, _body: (200, {"choices": []})
    (command,) = generate_texts(study()).next
    assert "generate" in command


@pytest.mark.parametrize("has_texts", [False, True])
def test_ten_rejected_requests_end_a_run_without_texts(study, server, has_texts):
    if has_texts:
        generate_texts(study(prompts=1))
    server.act = lambda _number, _body: make_refusal(400, "Bad Request")
    if has_texts:
        assert generate_texts(study(prompts=30)).missing == 29
        return
    with expect_refusal(r"failed 10 times in a row, last with rejected .*Bad Request"):
        generate_texts(study(prompts=30))
    assert len(server.bodies) == 11  # the first one also without a seed


def test_unreachable_server_is_reported(study, server):
    opened = study()
    server.close()
    with expect_refusal("nothing listens at that port"):
        generate_texts(opened)


def test_a_refused_prompt_does_not_stop_others(study, server):
    too_long = make_refusal(400, "maximum context length")
    server.act = lambda _number, body: too_long if "Once 2" in body["prompt"] else None
    result = generate_texts(study())
    assert (result.existing, result.missing, result.exit_code) == ({NAME: 5}, 1, 3)
    assert any("1 not written: too_long" in line for line in result.lines)


def test_dry_run_sends_no_request_and_names_the_price(study, server):
    said = "\n".join(generate_texts(study(COMPLETIONS + PRICED), dry_run=True).lines)
    assert f"{NAME}: 6 requests to {server.url}, model qwen2.5-7b for at most $" in said
    assert '"top_n_sigma": 1' in said
    assert server.bodies == []


LOCAL = '[[system]]\nname = "local"\nstrategy = "greedy"\nmodel = "bundled"\n'


@pytest.mark.parametrize("more", ["", LOCAL])
def test_two_runs_never_request_the_same_texts(study, server, more):
    opened = study(COMPLETIONS + more)
    says = "another guard-eval generate is writing these texts in .*; wait for it, or stop it$"
    with reserve_shard(opened.folder / "texts", Shard()), expect_refusal(says):
        generate_texts(opened)
    with expect_refusal("divides the work of local models; leave --shard out"):
        generate_texts(opened, strategy=[NAME], shard="1/2")
    assert server.bodies == []


def test_declined_requests_are_reported_as_missing(study, server, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    result = generate_texts(study(COMPLETIONS + PRICED))
    assert result.lines == (f"{NAME}: 0 of 6 texts exist", "no request was sent")
    assert (result.missing, result.next, server.bodies) == (6, (study().format_command("generate"),), [])


def test_paid_requests_need_a_budget_or_confirmation(study, server):
    with expect_refusal("--budget USD"):
        generate_texts(study(COMPLETIONS + PRICED))
    assert server.bodies == []
    with expect_refusal(r"price of .* is unknown"):
        generate_texts(study(), budget=1.0)  # in this network nothing is counted, so no budget can be held


def test_a_budget_holds_over_all_runs(study, server):
    """At 1000 dollars for a million tokens, a request costs 0.022 dollars, and at most 0.3."""
    opened = study(COMPLETIONS + PRICED)
    with expect_refusal("is used up"):
        generate_texts(opened, budget=0.31)
    paid = len(server.bodies)
    assert 0 < paid < 6
    with expect_refusal("is used up"):
        generate_texts(opened, budget=0.31)
    with expect_refusal("is used up"):
        generate_texts(study(COMPLETIONS + PRICED, name="renamed"), budget=0.31)
    assert len(server.bodies) == paid
    assert read_total_cost(opened) <= 0.31e9
    assert generate_texts(opened, budget=5).missing == 0


def test_a_lost_request_counts_as_spent(study, server):
    # The server behind the gateway may have done the work.
    server.act = lambda _number, _body: (502, {"error": "bad gateway"})
    opened = study(COMPLETIONS + PRICED, prompts=1)
    with expect_refusal(r"is used up|failed"):
        generate_texts(opened, budget=0.5)
    server.act = lambda _number, _body: None
    with expect_refusal("is used up"):
        generate_texts(opened, budget=0.5)


def test_a_key_is_sent_only_to_allowed_servers(study, server, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with expect_refusal("add --send-key MY_KEY="):
        generate_texts(study(COMPLETIONS + 'api_key_env = "MY_KEY"\n'))
    assert server.bodies == []
    address = server.url.removesuffix("/v1")
    generate_texts(study(COMPLETIONS + 'api_key_env = "MY_KEY"\n'), send_key=[f"MY_KEY={address}"])
    assert server.bodies[0][1]["authorization"] == f"Bearer {KEY}"
    assert KEY not in "".join(path.read_text() for path in study().folder.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("body = {max_tokens = 9}", "'max_tokens' cannot be set here"),
        ("body = {user = 'SYSTEM'}", "'user' cannot be set here"),
        ("headers = {Authorization = 'Bearer x'}", "'Authorization' cannot be set here"),
        ("strategy = 'greedy'", "base_url and strategy; give it one of"),
        ("column = 'x'", "column, which has no meaning for a model behind a server"),
    ],
)
def test_bad_settings_of_served_systems_are_refused(study, more, words):
    with pytest.raises(StudyError) as error:
        study(f"{more}\n")
    assert words in str(error.value)


KILLED = """
import sys
from pathlib import Path
from guard_eval.generation.command import generate_texts
from guard_eval.servers import client, workers
from guard_eval.study import Study
generate_texts(Study.open(sys.argv[1]))
"""


def test_killed_run_pays_twice_only_for_open_requests(study, server):
    opened = study(prompts=40)
    server.delay = 0.1
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(opened.folder)], env=os.environ)
    deadline = time.monotonic() + 60
    while len(server.bodies) < 20 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    sent, written = len(server.bodies), len(lines(opened))
    assert 0 < written < 40
    server.delay = 0.0
    assert generate_texts(opened).missing == 0
    in_flight = sent - written
    assert len(server.bodies) == 40 + in_flight
