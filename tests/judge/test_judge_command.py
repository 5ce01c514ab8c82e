"""The command `guard-eval judge`: previews, prices, confirmation, keys, criteria, failures and rounds."""

import json

import pytest
from fake_openai import KEY, make_error, make_verdict

from guard_eval.servers.price import find_price
from guard_eval.study.judge_settings import Judge

pytestmark = pytest.mark.slow

JUDGE = '[[judge]]\nmodel = "gpt-4o-2024-11-20"\ncriteria = ["fluency"]\nconcurrency = 4\n'


def make_judge_table(name, **more):
    """Return a table [[judge]] of study.toml."""
    settings = {"model": "gpt-4o", "name": name, **more}
    return "\n".join(["[[judge]]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items()), ""])


@pytest.fixture
def folder(study, pair):
    return study(JUDGE, map(pair, range(2)))


@pytest.fixture
def own_key(study, server, monkeypatch):
    """Name a server and the user's own key in study.toml, and return the option that allows this."""
    monkeypatch.setenv("SECRET", "sk-the-users-own-secret")
    study(f'{JUDGE}base_url = "{server.url}"\napi_key_env = "SECRET"\n')
    return ("--send-key", f"SECRET={server.url.removesuffix('/v1')}")


def test_dry_run_shows_cost_and_request_but_sends_nothing(folder, judge_command, server):
    ran = judge_command("--dry-run")
    assert ran.code == 0, ran
    for words in ("requests to send: 4", "online", "in a batch", "[POST /chat/completions]", "[system]"):
        assert words in ran.out
    assert ran.out.count("[system]") == 1
    assert KEY not in ran.out
    assert server.seen == []
    record = json.loads(judge_command("--dry-run", "--json").out)
    assert record["previews"][0]["requests"] == 4


def test_judge_asks_for_confirmation_and_resumes(folder, judge_command, server, judged):
    assert (
        "no request about a pair of the study was sent to a judge yet"
        in judge_command("--view", "v.html").refused()
    )
    assert "add --yes" in judge_command().refused()
    assert server.seen == []
    ran = judge_command("--yes")
    assert ran.code == 0, ran
    assert "4 judged, 4 requests sent, $0.00" in ran.out
    second = judge_command("--yes")
    assert "all questions have an answer" in second.out
    assert "4 exchanges" in judge_command("--view", "v.html").out
    assert len(server.asks) == 4
    assert len(judged(folder)) == 4


def test_view_shows_exchanges_of_the_named_judge_alone(folder, study, judge_command):
    study(JUDGE + make_judge_table("second", criteria=["fluency"]))
    assert judge_command("--yes").code == 0
    assert "8 exchanges" in judge_command("--view", "v.html").out
    assert "4 exchanges" in judge_command("--view", "v.html", "--only", "second").out


def test_judge_is_not_asked_about_removed_comparisons(study, pair, judge_command, guard_eval, server):
    study(JUDGE, [pair(0), pair(1, method_b="greedy", id="other")])
    assert "2 verdicts missing" in guard_eval("status", "s").out
    ran = judge_command("--yes")
    assert "2 questions are left out, because their comparison is no longer in pairs.compare" in ran.err
    assert len(server.asks) == 2
    assert "all judged" in guard_eval("status", "s").out


def test_panel_waits_for_its_second_judge(folder, study, judge_command, guard_eval):
    study(f"{JUDGE}{make_judge_table('second', criteria=['fluency'])}[analysis]\npanel = 'majority'\n")
    assert judge_command("--yes", "--only", "second").code == 0
    assert guard_eval("report", "s").code == 0
    page = (folder / "report" / "report.md").read_text()
    assert "fewer than two judges have judged, so there is no panel yet" in page
    assert judge_command("--yes").code == 0
    assert guard_eval("report", "s").code == 0
    page = (folder / "report" / "report.md").read_text()
    assert "so there is no panel yet" not in page
    assert "panel of 2 judges (majority)" in page


def test_report_names_a_judge_that_was_renamed(folder, study, judge_command, guard_eval):
    assert judge_command("--yes").code == 0
    study(f'{JUDGE}name = "renamed"\n')
    assert guard_eval("report", "s").code == 0
    page = (folder / "report" / "report.md").read_text()
    assert "settings were changed after the first verdict of judge gpt-4o-2024-11-20: judge from" in page


def test_error_of_one_judge_does_not_stop_the_others(folder, study, judge_command, server):
    study(JUDGE + '[[judge]]\nmodel = "bad"\nbase_url = "http://a@b"\n')
    assert "add --yes" in judge_command().refused()
    assert server.seen == []
    study(JUDGE + '[[judge]]\nmodel = "local"\nname = "second"\n')
    server.act = lambda ask: make_error(401) if ask["model"] != "local" else make_verdict(ask)
    ran = judge_command("--yes")
    assert ran.code == 2
    assert "does not accept the key" in ran.err
    assert KEY not in ran.err
    assert "second: 4 judged" in ran.out
    assert judge_command("--yes", "--only", "second").code == 0
    assert (
        "no judge 'third'; choose one of: gpt-4o-2024-11-20, second"
        in judge_command("--only", "third").refused()
    )


BAD_BUDGETS = ["0", "nan", "inf", "1e+300", "1.1e+09"]
BAD_ADDRESSES = ["ftp://x", "http://127.0.0.1:99999", "http://[::1", "http://127.0.0.1:abc", "http://a@b"]
NO_RECHECKS = [("0",), ("5", "--batch"), ("5", "--calibrate")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((("--budget", budget), f"--budget {budget} must be an amount") for budget in BAD_BUDGETS),
        *((("--send-key", f"A={address}"), "write a variable and a server") for address in BAD_ADDRESSES),
        (("--send-key", "https://x"), "write a variable and a server"),
        (("--dry-run", "--only", "x"), "the study has no judge 'x'"),
        *((("--recheck", *more), "--recheck needs a number of at least 1") for more in NO_RECHECKS),
        (("--recheck", "5"), "has no verdict to compare yet"),
    ],
)
def test_judge_refuses_wrong_options(folder, judge_command, server, arguments, words):
    assert words in judge_command("--yes", *arguments).refused()
    assert server.seen == []


def test_highest_price_and_budget_are_counted(study, pair, judge_command):
    """One request has 512 answer tokens at most, at $0.1 each, and at least 0.1 · 512 is reserved."""
    study(make_judge_table("dear", usd_per_million_tokens=[100_000, 100_000]), [pair(0)])
    assert judge_command("--yes", "--budget", "1e9").code == 0
    study(make_judge_table("dearer", usd_per_million_tokens=[1e13, 1e13]), [pair(0)])
    message = judge_command("--yes").refused()
    assert "judge[1].usd_per_million_tokens[1]: 10000000000000.0: input should be less than" in message


def test_study_toml_alone_cannot_send_a_key(folder, judge_command, server, own_key):
    """Check that the user must allow the server and the variable that study.toml names."""
    words = judge_command("--yes").refused()
    origin = server.url.removesuffix("/v1")
    assert f"study.toml asks to send the key in SECRET to {origin}, but --yes does not allow that" in words
    assert "sk-the-users" not in words
    assert server.seen == []
    assert "--send-key" in judge_command("--yes", "--send-key", "SECRET=http://other").refused()
    assert "--send-key" in judge_command("--yes", "--send-key", f"OTHER={origin}").refused()
    assert server.seen == []
    assert judge_command("--yes", *own_key).code == 0
    assert {request.headers["authorization"] for request in server.seen} == {"Bearer sk-the-users-own-secret"}


def test_collecting_a_batch_needs_permission_for_the_key(folder, judge_command, server, own_key, monkeypatch):
    """Check that no server gets a key without permission, even if only a batch must be collected."""
    refusal = make_error(404)
    server.faults["poll"] = [refusal]
    assert judge_command("--yes", "--batch", "--calibrate", *own_key).code == 2
    assert "requests to send: 4" in judge_command("--dry-run").out
    server.on["poll"] = lambda: server.faults["poll"].append(refusal)  # the study's, after the calibration's
    assert judge_command("--yes", "--batch", *own_key).code == 2
    server.on.clear()
    assert "requests to send: 0" in judge_command("--dry-run").out
    requests_before = len(server.seen)
    for more in ((), ("--batch",)):
        assert "--yes does not allow that" in judge_command("--yes", *more).refused()
    assert len(server.seen) == requests_before
    ran = judge_command("--yes", *own_key)
    assert ran.code == 3
    assert "3 questions are in batches. Collect the answers later, with --batch" in ran.out
    assert "3 judged, 0 requests" in judge_command("--yes", "--batch", *own_key).out
    monkeypatch.delenv("SECRET")
    assert "all questions have an answer" in judge_command("--yes").out


def test_trusted_toml_allows_sending_a_key(*, folder, judge_command, server, tmp_path, own_key):
    (tmp_path / "guard-eval").mkdir()
    trusted = tmp_path / "guard-eval" / "trusted.toml"
    trusted.write_text(f'[[trusted]]\nserver = "{server.url}"\nkey = "SECRET"\n')
    assert judge_command("--yes").code == 0
    trusted.write_text("[[trusted]]\nserver = 3\n")
    assert "is not a list of servers" in judge_command("--yes", "--calibrate").err


def test_long_requests_cost_more_per_token():
    """Compare with GPT-6.1 Sol: $2 and $10 per million tokens; $4 and $15 from 272,000 input tokens."""
    price = find_price(Judge(model="gpt-6.1-sol"), "https://api.openai.com/v1")
    assert price.price_tokens(272_000, 1000) == pytest.approx(0.272 * 2 + 0.001 * 10)
    assert price.price_tokens(272_001, 1000) == pytest.approx(0.272001 * 4 + 0.001 * 15)
    assert str(price).startswith("$2 in, $10 out per million tokens; in a batch $1 in, $5 out")


def test_judge_refuses_a_model_without_a_price(folder, study, judge_command):
    study(make_judge_table("far", model="nobody-knows", base_url="https://far.example/v1"))
    remedy = "unknown; set usd_per_million_tokens in study.toml"
    assert f"price: {remedy}" in judge_command("--dry-run").out
    assert f"the price of 'nobody-knows' is {remedy}" in judge_command("--yes").refused()


def test_free_judge_needs_no_confirmation(judge_command, study, pair):
    study(make_judge_table("free", usd_per_million_tokens=[0, 0]), [pair(0)])
    assert "2 judged, 2 requests sent, $0.00" in judge_command().out
    study(make_judge_table("unlisted", model="nobody-knows"))
    assert "price: free (a server in your network, and no listed price)" in judge_command("--dry-run").out
    assert "2 judged" in judge_command().out


def test_judge_names_changed_settings(folder, study, judge_command):
    assert judge_command("--yes").code == 0
    study(JUDGE.replace('["fluency"]', '["coherence"]'))
    assert "on fluency, but study.toml now names coherence." in judge_command("--dry-run").err
    study(JUDGE + "temperature = 0.5\n")
    for option in ("--dry-run", "--yes"):
        ran = judge_command(option)
        assert "has verdicts with other settings" in " ".join(ran.err.split())
    assert "judge.temperature from null to 0.5" in " ".join(ran.err.split())


def test_failing_pairs_do_not_stop_other_pairs(*, judge_command, study, server, pair, judged, guard_eval):

    def act(ask):
        words = f"request {len(server.asks)} of a{id(ask)}"
        too_long = make_error(400, words, code="context_length_exceeded")
        return too_long if "unjudgeable" in ask.words else make_verdict(ask)

    server.act = act
    bad = [pair(number, text_a=f"unjudgeable {number}") for number in range(14)]
    judge = make_judge_table("one", orders="one", concurrency=4, criteria=["fluency"])
    folder = study(judge, [*bad, *map(pair, range(14, 24))])
    ran = judge_command("--yes")
    assert ran.code == 3, ran
    assert "failed: one: 14 × too_long" in ran.out
    assert "14 × HTTP 400: request" in ran.out  # reasons that differ in numbers alone are one
    state = guard_eval("status", "s").out
    assert "one: 14 verdicts missing, 14 after a failure" in state
    assert "waits for" not in state  # no rating is to come
    study(judge, map(pair, range(24, 40)))  # more come while the others cannot be judged
    server.asks.clear()
    ran = judge_command("--yes")
    assert ran.code == 3, ran
    are_bad = ["unjudgeable" in ask.words for ask in server.asks]
    assert sum(not bad for bad in are_bad) == 16
    assert are_bad.index(True) >= 16 - 4  # those that failed before come last
    assert len(judged(folder)) == 26


def test_judge_uses_its_own_or_the_studys_criteria(judge_command, study, pair):
    second = make_judge_table("two", criteria=["fluency", "factuality"])
    study('[annotation]\ncriteria = ["coherence"]\n' + make_judge_table("one") + second, [pair(0)])
    ran = judge_command("--dry-run")
    assert ran.code == 0, ran
    assert "criteria: coherence\n" in ran.out
    assert "criteria: fluency, factuality\n" in ran.out


def prefer_first_texts(ask):
    """Answer like a judge that always prefers the text of the pair's first system."""
    return make_verdict(ask, "A" if ask.texts[0].startswith("first") else "B")


def test_judge_stops_after_the_deciding_round(*, study, pair, judge_command, guard_eval, server, judged):
    """Eight of eight prompts give p = .022 in three rounds, so the judge is not asked in the third round."""
    rounds = [1] * 7 + [2] + [3] * 4
    lines = f'design = "candidate"\nrounds = 3\n{JUDGE}'
    folder = study(lines, [pair(number, round=round_number) for number, round_number in enumerate(rounds)])
    server.act = prefer_first_texts
    preview = judge_command("--dry-run").out
    assert "requests to send: 24" in preview
    assert "Fewer requests may be sent, because a comparison stops when it is decided." in preview
    ran = judge_command("--yes")
    assert ran.code == 0, ran
    assert f"{len(server.asks)} judged" in ran.out
    assert {row.prompt_round for row in judged(folder)} < {1, 2, 3}
    status = guard_eval("status", "s").out
    assert "over after" in status
    assert "gpt-4o-2024-11-20: all judged" in status
    requests_before = len(server.asks)
    assert "all questions have an answer" in judge_command("--yes").out
    assert len(server.asks) == requests_before


def test_next_round_begins_after_a_failed_question(*, study, pair, judge_command, guard_eval, server, judged):
    lines = f'design = "candidate"\nrounds = 2\n{JUDGE}'
    study(lines, [pair(number, round=1 + number // 2) for number in range(4)])
    server.act = lambda ask: make_error(400) if "number 0" in ask.words else make_verdict(ask)
    ran = judge_command("--yes")
    assert ran.code == 3
    assert "6 judged" in ran.out
    assert "over after 2 of 2 rounds" in guard_eval("status", "s").out
    server.act = make_verdict
    assert "2 judged" in judge_command("--yes").out  # asked again, and counted today
