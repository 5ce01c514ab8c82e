"""A judge whose answers cannot be used is not paid for the whole study, and every form it had is reported."""

import re

import pytest
from fake_openai import answer, completion, failure, verdict

from guard_eval.cli.commands import load_command
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow

JUDGE = '[[judge]]\nmodel = "company-deployment-7"\n'
JUDGE += 'usd_per_million_tokens = [2, 8]\ncriteria = ["fluency"]\nconcurrency = 4\n'
PROSE = "Method A reads better to me."


@pytest.mark.parametrize("batch", [(), ("--batch",)])
def test_useless_answers_end_a_run_after_ten(study, pair, guard_eval, server, batch):
    study(JUDGE, map(pair, range(48)))
    server.act = lambda ask: answer(ask, PROSE)
    ran = guard_eval("judge", "s", "--yes", *batch)
    assert ran.code == 2, ran
    assert len(server.asks) == server.paid.total() == 10
    assert server.batches == {}
    assert "no verdict in 10 answers in a row" in " ".join(ran.err.split())


def test_a_run_ends_after_a_batch_without_verdicts(run, pairs, server):
    pairs(20)
    server.act = lambda ask: completion(PROSE) if server.batches else verdict(ask)
    with pytest.raises(StudyError, match="gave no verdict in 39 answers in a row"):
        run(batch=True)
    assert len(server.batches) == 1


def test_reasoning_is_detected_by_answers_and_not_by_name(study, pair, guard_eval, server):
    """It needs 2000 tokens to think, and says so by what it does; a second run knows it already."""
    study(JUDGE, map(pair, range(3)))

    def act(ask):
        if ask["max_tokens"] < 2000:
            return answer(ask, "<think>Let me compare", finish="length")
        return verdict(ask)

    server.act = act
    assert "6 judged, 7 requests" in guard_eval("judge", "s", "--yes").out
    assert [ask["max_tokens"] for ask in server.asks] == [512] + [8192] * 6
    assert ["temperature" in ask for ask in server.asks] == [True] + [False] * 6
    study(JUDGE, map(pair, range(3, 5)))
    assert "4 judged, 4 requests" in guard_eval("judge", "s", "--yes").out


def test_a_preview_adds_reasoning_to_the_worst_case(study, pair, guard_eval):
    study(JUDGE, map(pair, range(2)))
    out = guard_eval("judge", "s", "--dry-run").out
    assert f"answer tokens: at most {4 * 8192:,} (8,192 each, if the model reasons)" in out
    expected = re.search(r"online, if the model reasons +\$([\d.]+)", out)[1]
    assert float(expected) > 4 * 1000 * 8e-6


def test_the_report_prints_each_form_with_its_verdicts(study, pair, guard_eval, server):
    folder = study(JUDGE, map(pair, range(2)))

    def drops_seed(ask):
        return failure(400, "unknown field: seed") if "seed" in ask else verdict(ask)

    server.act = drops_seed
    assert "4 judged" in guard_eval("judge", "s", "--yes").out
    study(JUDGE + 'output = "text"\n', map(pair, range(2, 5)))
    assert "6 judged" in guard_eval("judge", "s", "--yes").out
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


def test_second_run_uses_the_request_form_of_the_first(run, pairs, store, pair, server):
    pairs(3)
    server.act = lambda ask: verdict(ask) if ask.form == "text" else failure(422, "what?")
    assert run().verdicts == 6
    refused = len(server.asks) - 6
    pairs(6)
    assert run().requests == 6
    assert len(server.asks) == refused + 12
