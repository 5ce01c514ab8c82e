"""Recheck: stored requests are sent again, changed answers are counted, and no verdict changes."""

import pytest
from fake_openai import make_chat_answer, make_verdict
from judge_requests import count_judged_presentations, read_spending

from guard_eval.store import Store
from guard_eval.study import Study
from judge.recheck import compute_upper_limit_of_changed_share

pytestmark = pytest.mark.slow

JUDGE = '[[judge]]\nmodel = "m"\ncriteria = ["fluency"]\nconcurrency = 4\nmax_output_tokens = 512\n'
JUDGE += "usd_per_million_tokens = [2, 8]\n"


@pytest.fixture
def judged_study(study, pair, judge_command, server):
    folder = study(JUDGE, map(pair, range(20)))
    assert judge_command("--yes").code == 0
    server.asks.clear()
    return folder


def test_recheck_of_an_unchanged_judge_finds_no_change(judged_study, judge_command, server):
    before = [request.raw for request in server.seen]
    with Store.open(Study.open(judged_study).database) as store:
        spent = read_spending(store).usd
        ran = judge_command("--recheck", "15", "--yes")
        assert ran.code == 0, ran
        assert "15 of 15 answers give the same verdicts" in ran.out
        assert "more than 18 points in any share is not plausible" in ran.out  # 1 - 0.05 ** (1 / 15)
        assert count_judged_presentations(store) == 40
        assert read_spending(store).usd == pytest.approx(spent + 15 * 280 / 1e6)
    repeated = [request.raw for request in server.seen[len(before) :]]
    assert len(repeated) == len({*repeated}) == 15
    assert {*repeated} <= {*before}
    assert "earlier run" not in ran.out
    repeated_run = " ".join(judge_command("--recheck", "18", "--yes").out.split())
    assert "18 of 18 answers" in repeated_run
    assert "15 of the new answers came in an earlier run of this day" in repeated_run
    assert len(server.asks) == 18  # the same day nothing is paid twice


def test_recheck_counts_changed_answers(judged_study, judge_command, server):
    def act(ask):
        if len(server.asks) <= 2:
            return make_verdict(ask, "B")
        return make_chat_answer("I cannot say") if len(server.asks) == 3 else make_verdict(ask)

    server.act = act
    out = judge_command("--recheck", "20", "--yes").out
    points = round(100 * compute_upper_limit_of_changed_share(2, 19))
    assert "17 of 19 answers give the same verdicts; a change of more than " in " ".join(out.split())
    assert f"{points} points" in out
    assert "1 gave no verdict this time" in " ".join(out.split())
    assert judge_command("--yes").code == 0
    assert len(server.asks) == 20


def test_recheck_costs_the_previewed_amount(judged_study, judge_command, server):
    out = judge_command("--recheck", "10", "--dry-run").out
    assert "to ask again: 10 stored requests, byte for byte" in out
    assert "$0.0028" in out  # 10 requests of 280 millionths
    assert server.asks == []
