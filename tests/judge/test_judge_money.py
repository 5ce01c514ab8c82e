"""Costs: a judge whose answers have no verdict is stopped, and reasoning is included in the estimate."""

import re

import pytest
from fake_openai import make_answer, make_chat_answer, make_error, make_verdict
from refusals import expect_refusal

from guard_eval.cli.commands import load_command

pytestmark = pytest.mark.slow

JUDGE = '[[judge]]\nmodel = "company-deployment-7"\n'
JUDGE += 'usd_per_million_tokens = [2, 8]\ncriteria = ["fluency"]\nconcurrency = 4\n'
PROSE = "Method A reads better to me."


def test_batch_without_verdicts_ends_the_run(run, pairs, server):
    pairs(20)
    server.act = lambda ask: make_chat_answer(PROSE) if server.batches else make_verdict(ask)
    with expect_refusal("gave no verdict in 39 answers in a row"):
        run(batch=True)
    assert len(server.batches) == 1


def test_reasoning_is_detected_from_answers(study, pair, judge_command, server):
    """Use a model that needs 2000 tokens to think. A second run uses what the first run found."""
    study(JUDGE, map(pair, range(3)))

    def act(ask):
        if ask["max_tokens"] < 2000:
            return make_answer(ask, "<think>Let me compare", finish="length")
        return make_verdict(ask)

    server.act = act
    assert "6 judged, 7 requests" in judge_command("--yes").out
    assert [ask["max_tokens"] for ask in server.asks] == [512] + [8192] * 6
    assert ["temperature" in ask for ask in server.asks] == [True] + [False] * 6
    study(JUDGE, map(pair, range(3, 5)))
    assert "4 judged, 4 requests" in judge_command("--yes").out


def test_preview_adds_reasoning_to_the_worst_case(study, pair, judge_command):
    study(JUDGE, map(pair, range(2)))
    out = judge_command("--dry-run").out
    assert f"answer tokens: at most {4 * 8192:,} (8,192 each, if the model reasons)" in out
    expected = re.search(r"online, if the model reasons +\$([\d.]+)", out)[1]
    assert float(expected) > 4 * 1000 * 8e-6


def test_report_counts_verdicts_by_request_form(study, pair, judge_command, server):
    folder = study(JUDGE, map(pair, range(2)))

    def refuse_seed(ask):
        return make_error(400, "unknown field: seed") if "seed" in ask else make_verdict(ask)

    server.act = refuse_seed
    assert "4 judged" in judge_command("--yes").out
    study(JUDGE + 'output = "text"\n', map(pair, range(2, 5)))
    assert "6 judged" in judge_command("--yes").out
    load_command("report")(folder)
    page = (folder / "report" / "report.md").read_text(encoding="utf-8")
    first = r"answers in a JSON schema, without seed\\?\): 4 verdicts from 4 answers"
    second = r"answers in plain text, without seed\\?\): 6 verdicts from 6 answers"
    assert re.search(first, page)
    assert re.search(second, page)
    assert "were asked for in different ways" in page
    prompts = [path.read_text(encoding="utf-8") for path in (folder / "report" / "prompts").iterdir()]
    assert len(prompts) == 2
    assert sum("one JSON object" in text for text in prompts) == 1
    assert sum("verdict block" in text for text in prompts) == 1
    assert all("temperature: 0.0" in text and "seed:" not in text for text in prompts)


@pytest.mark.parametrize(
    ("answer", "is_early"), [(make_error(500), True), (make_chat_answer("", refusal="no"), False)]
)
def test_pair_that_the_judge_refuses_is_no_missing_rating(
    *, study, pair, judge_command, server, answer, is_early
):
    folder = study(JUDGE, map(pair, range(12)))
    server.act = lambda ask: answer if "prompt number 5" in ask.words else make_verdict(ask)
    judge_command("--yes")
    report = load_command("report")(folder)
    assert ("looked at early" in report.answer) == is_early
    if is_early:
        assert "gave 11 of 12 ratings" in report.answer.replace("\u00a0", " ")


def test_second_run_uses_the_request_form_of_the_first(run, pairs, store, pair, server):
    pairs(3)
    server.act = lambda ask: make_verdict(ask) if ask.form == "text" else make_error(422, "what?")
    assert run().verdicts == 6
    refused = len(server.asks) - 6
    pairs(6)
    assert run().requests == 6
    assert len(server.asks) == refused + 12
