"""What is Anthropic's alone in batches: no names of ours, and results that are there for a while."""

from datetime import UTC, datetime, timedelta

import pytest
from fake_openai import Out, failure, verdict

from guard_eval.errors import StudyError
from judge.batch.anthropic_batches import AnthropicBatches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.both_databases,
    pytest.mark.parametrize("provider", ["anthropic"], indirect=True),
]


class KilledError(BaseException):
    """The end of a run, as if by a signal."""


def others(count):
    """Return as many requests of another program."""
    params = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "somebody else's"}]}
    return [{"custom_id": f"other-{number}", "params": params} for number in range(count)]


def ours_alone(ask):
    """Answer what this study asks; another program's requests end in an error."""
    return failure(500) if "somebody else's" in ask.words else verdict(ask)


@pytest.fixture
def killed(run, monkeypatch):
    """Let a run end when its batch is made, or just before, and before its name is known."""

    def end(*, made=True):
        with monkeypatch.context() as patched:
            whole = AnthropicBatches.create

            async def cut(self, draft):
                if made:
                    await whole(self, draft)
                raise KilledError

            patched.setattr(AnthropicBatches, "create", cut)
            with pytest.raises(KilledError):
                run()

    return end


def test_the_journal_has_the_results_as_they_came_and_online_runs_reuse_them(run, store, pairs, server):
    pairs(2)
    ledger = run()
    assert (ledger.verdicts, ledger.requests) == (4, 4)
    (made,) = server.batches
    answers = list(store.answers_of("gpt-4o-2024-11-20"))
    assert {answer.body for answer in answers} == set(server.files[f"{made}/results"].splitlines())
    assert {each["custom_id"] for each in server.files[made]} == {answer.key for answer in answers}
    usage = [each.usage for each in answers]
    counts = {(each.input_tokens, each.cached_tokens, each.written_tokens) for each in usage}
    assert counts == {(100, 40, 20)}
    assert {(each.output_tokens, each.reasoning_tokens) for each in usage} == {(10, 4)}
    run(style="auto")
    assert server.count("chat") == 0


@pytest.mark.parametrize("ended", [True, False])
def test_another_programs_batch_of_the_same_size_is_not_taken_for_ours(
    *, run, store, pairs, server, killed, ended
):
    """Both are made in the same minute, with as many requests; theirs first."""
    pairs(2)
    server.act = ours_alone
    server.make(others(4), ended=ended)
    killed()
    assert run().verdicts == 4
    assert len(server.batches) == 2  # ours was found, in the end by its results
    assert set(server.paid.values()) == {1}
    spend = store.spending()[0]
    assert (spend.answers, spend.lost, spend.held_usd) == (4, 0, 0)


@pytest.mark.parametrize("ended", [True, False])
def test_where_there_is_only_another_programs_ours_is_made(*, run, store, pairs, server, killed, ended):
    pairs(2)
    server.act = ours_alone
    killed(made=False)
    server.make(others(4), ended=ended)
    assert run().verdicts == 4
    assert len(server.batches) == 2
    assert set(server.paid.values()) == {1}
    assert store.spending()[0].lost == 0


def test_a_connection_that_is_lost_does_not_lead_to_a_second_batch(run, pairs, server):
    pairs(2)
    server.make(others(4), made_at=datetime.now(UTC) - timedelta(hours=1))
    server.faults["create"] = [Out(drop=True)]  # it is made, and its name is lost
    assert run().verdicts == 4
    assert (len(server.batches), server.count("create")) == (2, 1)


def test_two_parts_of_one_size_are_two_batches_though_a_connection_is_lost(
    *, run, pairs, server, monkeypatch
):
    pairs(2)
    monkeypatch.setattr(AnthropicBatches, "most_requests", 2)
    server.faults["create"] = [None, Out(drop=True)]
    assert run().verdicts == 4
    assert len(server.batches) == 2
    assert set(server.paid.values()) == {1}


def test_batches_of_long_ago_and_of_other_sizes_are_passed_over_page_by_page(run, pairs, server, killed):
    pairs(2)
    server.page = 2
    server.make(others(4), made_at=datetime.now(UTC) - timedelta(hours=1))
    killed()
    for _ in range(3):
        server.make(others(5))
    assert run().verdicts == 4
    assert len(server.batches) == 5
    assert server.count("list") >= 2


def test_expired_and_errored_requests_are_sent_again_and_cost_nothing(run, store, pairs, server):
    pairs(2)
    asked = []

    def act(ask):
        asked.append(ask)
        return {1: None, 2: failure(529, "Overloaded")}.get(len(asked), verdict(ask))

    server.act = act
    assert run().verdicts == 4
    assert len(server.batches) == 2
    assert set(server.paid.values()) == {1}
    assert store.spending()[0].held_usd == 0


def test_results_that_are_archived_count_as_lost(run, store, pairs, server):
    pairs(1)
    server.faults["download"] = [failure(404, "archived")]
    assert run().verdicts == 2
    spend = store.spending()[0]
    assert (spend.lost, spend.answers) == (2, 2)


def test_a_field_that_is_refused_is_left_out_of_the_next_batch(run, pairs, server):
    pairs(1)
    server.refuses["output_config"] = "output_config.format: not supported by this model"
    assert run().verdicts == 2
    sent = [each["params"] for name in server.batches for each in server.files[name]]
    assert ["output_config" in each for each in sent] == [True, True, False, False]


def test_no_credit_ends_the_run_with_a_sentence_and_holds_no_money(run, store, pairs, server):
    pairs(1)
    server.faults["create"] = [failure(400, "Your credit balance is too low to access the Anthropic API.")]
    with pytest.raises(StudyError, match="no credit left"):
        run()
    assert run().verdicts == 2
    assert store.spending()[0].held_usd == 0
