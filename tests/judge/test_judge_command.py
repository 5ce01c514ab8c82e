"""`guard-eval judge` as a user has it: preview, price, consent, keys, budget, failures, calibration, page."""

import json

import fake_openai
import pytest
from command_line import run_here
from factories import STUDY_HEAD
from fake_openai import KEY

from guard_eval.store import Store, pairs, unblind
from guard_eval.study import Study
from judge.command import count_reasons
from judge.usage import judge_usage as judge_run

pytestmark = pytest.mark.slow

STUDY = STUDY_HEAD + '[[judge]]\nmodel = "gpt-4o-2024-11-20"\ncriteria = ["fluency"]\nconcurrency = 4\n'


@pytest.fixture
def folder(tmp_path, pair, key):
    """A study of two pairs and one judge."""
    made = tmp_path / "s"
    made.mkdir()
    (made / "study.toml").write_text(STUDY)
    with Store.open(f"sqlite:///{made / 'study.db'}", create=True) as store:
        pairs.add(store, [pair(number) for number in range(2)])
    return made


@pytest.fixture
def guard_eval(monkeypatch, capsys, tmp_path, server):
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url, "XDG_CONFIG_HOME": str(tmp_path)}
    return lambda *arguments: run_here(monkeypatch, capsys, tmp_path, *arguments, **environ)


def opened(folder):
    study = Study.open(folder)
    return Store.open(study.database, declared=study.declared)


def test_a_dry_run_shows_cost_and_one_request_and_sends_nothing(folder, guard_eval, server):
    ran = guard_eval("judge", "s", "--dry-run")
    assert ran.code == 0, ran
    for words in ("to ask: 4 requests", "online", "in a batch", "[POST /chat/completions]", "[system]"):
        assert words in ran.out
    assert ran.out.count("[system]") == 1
    assert KEY not in ran.out
    assert server.seen == []
    record = json.loads(guard_eval("judge", "s", "--dry-run", "--json").out)
    assert record["previews"][0]["requests"] == 4


def test_a_run_is_confirmed_and_goes_on_where_it_ended(folder, guard_eval, server):
    assert "no judge has been asked anything yet" in guard_eval("judge", "s", "--view", "v.html").refused()
    assert "add --yes" in guard_eval("judge", "s").refused()
    assert server.seen == []
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 0, ran
    assert "4 judged, 4 requests sent, $0.00" in ran.out
    again = guard_eval("judge", "s", "--yes")
    assert "nothing is left to ask" in again.out
    assert "4 exchanges" in guard_eval("judge", "s", "--view", "v.html").out
    assert len(server.asks) == 4
    with opened(folder) as store:
        assert len(unblind.tidy(store)) == 4


def test_failures_are_named_by_reason_and_give_exit_code_3(folder, guard_eval, server, fake):
    server.act = lambda ask: (
        fake.failure(400, "no such text 123", code="content_filter")
        if "number 1" in ask.words
        else fake.verdict(ask)
    )
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 3, ran
    assert "failed: gpt-4o-2024-11-20: 2 × content_filter" in ran.out
    assert "2 × HTTP 400: no such text 123" in ran.out


def test_one_judge_that_cannot_be_asked_keeps_no_other_waiting(folder, guard_eval, server, fake):
    table = '[[judge]]\nmodel = "local"\nname = "second"\n'
    (folder / "study.toml").write_text(STUDY + table)
    server.act = lambda ask: fake.failure(401) if ask["model"] != "local" else fake.verdict(ask)
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 2
    assert "does not accept the key" in ran.err
    assert KEY not in ran.err
    assert "second: 4 judged" in ran.out
    assert guard_eval("judge", "s", "--yes", "--only", "second").code == 0
    assert (
        "no judge 'third'; it has: gpt-4o-2024-11-20, second"
        in guard_eval("judge", "s", "--only", "third").refused()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", "0"), "--budget 0 must be an amount above 0"),
        (("--budget", "nan"), "must be an amount above 0"),
        (("--send-key", "https://x"), "write a variable and a server"),
        (("--send-key", "A=ftp://x"), "write a variable and a server"),
        (("--dry-run", "--only", "x"), "the study has no judge 'x'"),
    ],
)
def test_a_wrong_option_is_refused(folder, guard_eval, server, arguments, words):
    assert words in guard_eval("judge", "s", "--yes", *arguments).refused()
    assert server.seen == []


def test_a_study_alone_never_sends_a_key(folder, guard_eval, server, monkeypatch):
    """study.toml names a server and a variable: without the user's own word nothing leaves."""
    monkeypatch.setenv("SECRET", "sk-the-users-own-secret")
    lines = f'base_url = "{server.url}/elsewhere/.."\napi_key_env = "SECRET"\n'
    (folder / "study.toml").write_text(STUDY + lines.replace("/elsewhere/..", ""))
    words = guard_eval("judge", "s", "--yes").refused()
    origin = server.url.removesuffix("/v1")
    assert f"study.toml wants the key in SECRET sent to {origin}; --yes does not allow that" in words
    assert "sk-the-users" not in words
    assert server.seen == []
    assert "--send-key" in guard_eval("judge", "s", "--yes", "--send-key", "SECRET=http://other").refused()
    assert "--send-key" in guard_eval("judge", "s", "--yes", "--send-key", f"OTHER={origin}").refused()
    assert server.seen == []
    assert guard_eval("judge", "s", "--yes", "--send-key", f"SECRET={origin}").code == 0
    assert {each.headers["authorization"] for each in server.seen} == {"Bearer sk-the-users-own-secret"}


def test_to_collect_a_batch_needs_consent_too(folder, guard_eval, server, monkeypatch):
    """A calibration's batch hides no question, and no server gets a key unasked."""
    monkeypatch.setenv("SECRET", "sk-the-users-own-secret")
    (folder / "study.toml").write_text(STUDY + f'base_url = "{server.url}"\napi_key_env = "SECRET"\n')
    consent = ("--send-key", f"SECRET={server.url.removesuffix('/v1')}")
    refusal = fake_openai.failure(404)
    server.faults["poll"] = [refusal]
    assert guard_eval("judge", "s", "--yes", "--batch", "--calibrate", *consent).code == 2
    assert "to ask: 4 requests" in guard_eval("judge", "s", "--dry-run").out
    server.on["poll"] = lambda: server.faults["poll"].append(refusal)  # the study's, after the calibration's
    assert guard_eval("judge", "s", "--yes", "--batch", *consent).code == 2
    server.on.clear()
    assert "to ask: 0 requests" in guard_eval("judge", "s", "--dry-run").out
    asked = len(server.seen)
    for more in ((), ("--batch",)):
        assert "--yes does not allow that" in guard_eval("judge", "s", "--yes", *more).refused()
    assert len(server.seen) == asked
    ran = guard_eval("judge", "s", "--yes", *consent)
    assert ran.code == 3
    assert "3 questions are in batches; collect them by --batch, later" in ran.out
    assert "3 judged, 0 requests" in guard_eval("judge", "s", "--yes", "--batch", *consent).out
    monkeypatch.delenv("SECRET")
    assert "nothing is left to ask" in guard_eval("judge", "s", "--yes").out


def test_a_judge_with_an_error_spares_no_other_the_question(folder, guard_eval, server):
    (folder / "study.toml").write_text(STUDY + '[[judge]]\nmodel = "bad"\nbase_url = "http://a@b"\n')
    assert "add --yes" in guard_eval("judge", "s").refused()
    assert server.seen == []


def test_the_users_own_list_lets_a_key_go_without_an_option(
    folder, guard_eval, server, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET", "sk-the-users-own-secret")
    (folder / "study.toml").write_text(STUDY + f'base_url = "{server.url}"\napi_key_env = "SECRET"\n')
    (tmp_path / "guard-eval").mkdir()
    trusted = tmp_path / "guard-eval" / "trusted.toml"
    trusted.write_text(f'[[trusted]]\nserver = "{server.url}"\nkey = "SECRET"\n')
    assert guard_eval("judge", "s", "--yes").code == 0
    trusted.write_text("[[trusted]]\nserver = 3\n")
    assert "is not a list of servers" in guard_eval("judge", "s", "--yes", "--calibrate").err


def test_a_price_that_nobody_knows_is_asked_for(folder, guard_eval, server):
    far = '[[judge]]\nmodel = "nobody-knows"\nbase_url = "https://far.example/v1"\n'
    (folder / "study.toml").write_text(STUDY_HEAD + far)
    assert "price: unknown" in guard_eval("judge", "s", "--dry-run").out
    assert "the price of 'nobody-knows' is unknown" in guard_eval("judge", "s", "--yes").refused()


def test_a_calibration_is_reported_and_is_no_verdict(folder, guard_eval):
    ran = guard_eval("judge", "s", "--yes", "--calibrate")
    assert "judged, " in ran.out
    with opened(folder) as store:
        assert unblind.tidy(store) == []
        used = judge_run(Study.open(folder), store)
    assert {each["check"] for each in used.checked} >= {"identical", "swapped", "padded"}


def test_changed_settings_are_named_before_anything_is_sent(folder, guard_eval):
    assert guard_eval("judge", "s", "--yes").code == 0
    (folder / "study.toml").write_text(STUDY.replace('["fluency"]', '["coherence"]'))
    assert "on fluency, and is now asked on coherence;" in guard_eval("judge", "s", "--dry-run").err
    (folder / "study.toml").write_text(STUDY + "temperature = 0.5\n")
    ran = guard_eval("judge", "s", "--dry-run")
    assert "has verdicts under other settings" in " ".join(ran.err.split())
    assert "judge.temperature from null to 0.5" in " ".join(ran.err.split())


def test_reasons_that_differ_in_numbers_alone_are_one():
    failures = [("j", "rejected", f"HTTP 400: request {n} of abc{n}defgh") for n in range(3)]
    (reason,) = count_reasons(failures)
    assert (reason["count"], reason["reason"]) == (3, "HTTP 400: request 0 of abc0defgh")
