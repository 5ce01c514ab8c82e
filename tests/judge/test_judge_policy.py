"""The next step after a judge's answer or failure: tables of cases, without a server or a database."""

from dataclasses import replace

import pytest

from guard_eval.servers.failures import MOST_FAILURES, RequestFailure
from guard_eval.servers.form import Form
from guard_eval.study.judge_settings import Judge
from judge.decide import (
    DECIDING_QUESTIONS,
    MOST_USELESS_ANSWERS,
    REASONING_TOKENS,
    Failure,
    History,
    Reply,
    RetryLater,
    RunState,
    Send,
    Stop,
    Verdict,
    decide_next_step,
    record_reply,
    update_failure_counts,
)

SCHEMA = Form()
TEXT = Form(output="text")
CHOICES = {"fluency": "A"}


def make_failure(kind, **more):
    return RequestFailure(kind=kind, detail="words", **more)


PROSE = make_failure("unparseable", change="output")
CUT = make_failure("truncated")
DECLINED = make_failure("refusal")
UNKNOWN_FORM = make_failure("rejected", change="guess")
NO_TEMPERATURE = make_failure("rejected", change="temperature")
BROKEN = make_failure("server_error", change="guess")
BUSY = make_failure("rate_limited", wait=7.0)
LOST = make_failure("transport", fatal="the server cannot be reached")
ASTRAY = make_failure("rejected", fatal="check base_url", blames_address=True)
SLOW = make_failure("timeout")
TOO_SLOW = make_failure("timeout", too_slow=True)
NO_KEY = make_failure("rejected", fatal="the key is wrong")


def make_state(form=SCHEMA, *, limit=512, **settings):
    judge = Judge(model="m", **settings)
    return RunState(judge=judge, preferred_form=form, max_output_tokens=judge.max_output_tokens or limit)


SETTLED = replace(make_state(), is_settled=True)


def ask(run, *results, pair="p", others=True, reasoned=False, stored=False):
    """Ask one question with these results of its requests; return the steps, and the run's state."""
    history = History(run=run, pair_id=pair, has_other_questions=others)
    form = run.form
    steps = [decide_next_step(history, form)]
    for result in results:
        if isinstance(steps[-1], Send):
            form = steps[-1].form
        answered = isinstance(result, dict) or result.kind not in ANSWERLESS
        reply = Reply(
            form=form,
            result=result,
            max_output_tokens=history.run.max_output_tokens,
            answered=answered,
            is_new=not stored,
            reasoned=reasoned,
        )
        history = record_reply(history, reply)
        steps.append(decide_next_step(history, form))
    return steps[1:], history.run


ANSWERLESS = {"rejected", "rate_limited", "server_error", "timeout", "transport", "too_long"}


@pytest.mark.parametrize(
    ("results", "last"),
    [
        ([CHOICES], Verdict(CHOICES)),
        ([PROSE], Send(SCHEMA, 1)),
        ([PROSE, PROSE], Send(SCHEMA, 2)),
        ([PROSE] * 3, Failure(PROSE)),
        ([PROSE, PROSE, CHOICES], Verdict(CHOICES)),
        ([DECLINED], Failure(DECLINED)),
        ([BUSY], RetryLater(1, 7.0)),
        ([BUSY] * 11, RetryLater(11, 7.0)),
        ([BUSY] * 12, Failure(BUSY)),
        ([BUSY, PROSE], Send(SCHEMA, 1)),
        ([BUSY] * 11 + [PROSE, BUSY], RetryLater(1, 7.0)),  # another sample has its own attempts
        ([BROKEN] * 5, RetryLater(5)),
        ([BROKEN] * 6, Failure(BROKEN)),
        ([ASTRAY] * 3, RetryLater(3)),
        ([ASTRAY] * 4, Failure(ASTRAY)),  # a proxy answered for the server
        ([LOST] * 4, Failure(LOST)),  # the run had answers before: the connection may come back
        ([NO_KEY], Stop("the key is wrong")),
        ([SLOW], RetryLater(1)),
        ([SLOW] * 4, Failure(SLOW)),
        ([NO_TEMPERATURE], Failure(NO_TEMPERATURE)),  # a settled form changes no more
    ],
)
def test_next_step_follows_the_decision_table(results, last):
    steps, _ = ask(SETTLED, *results)
    assert steps[-1] == last


def test_timeout_of_a_lone_request_is_not_repeated():
    assert ask(SETTLED, TOO_SLOW)[0] == [Failure(TOO_SLOW)]


def test_long_requested_wait_ends_the_run():
    (step,), _ = ask(SETTLED, make_failure("rate_limited", wait=600.0))
    assert "asks to wait 600 seconds" in step.reason


def test_connection_lost_before_any_answer_ends_the_run():
    steps, _ = ask(make_state(), *[LOST] * 4)
    assert steps == [RetryLater(1), RetryLater(2), RetryLater(3), Stop("the server cannot be reached")]


# The form: given up after two questions on which it was refused or ignored


@pytest.mark.parametrize("blame", [PROSE, UNKNOWN_FORM, make_failure("rejected", change="output")])
def test_one_failed_question_does_not_change_the_form(blame):
    """Keep the verdict in plain text until the next question. Its request with the schema works."""
    steps, run = ask(make_state(), blame, CHOICES)
    assert steps == [Send(TEXT), RetryLater(another_first=True)]
    assert run.form == SCHEMA
    steps, run = ask(run, CHOICES)
    assert steps == [Verdict(CHOICES)]
    assert (run.is_settled, run.form) == (True, SCHEMA)


@pytest.mark.parametrize("blame", [PROSE, UNKNOWN_FORM])
def test_two_failed_questions_change_the_form(blame):
    _, run = ask(make_state(), blame, CHOICES)
    steps, run = ask(run, blame, CHOICES)
    assert steps == [Send(TEXT), Verdict(CHOICES)]
    assert (run.is_settled, run.form) == (True, TEXT)
    assert ask(run, CHOICES)[0] == [Verdict(CHOICES)]


def test_single_question_accepts_a_simpler_request_form():
    steps, run = ask(make_state(), PROSE, CHOICES, others=False)
    assert steps == [Send(TEXT), Verdict(CHOICES)]
    assert run.form == TEXT


def test_server_outage_does_not_change_the_form():
    """Two server errors lead to plain text. After the outage, the schema is used again."""
    steps, run = ask(make_state(), BROKEN, BROKEN, CHOICES)
    assert steps == [RetryLater(1), Send(TEXT), RetryLater(another_first=True)]
    steps, run = ask(run, CHOICES)
    assert (steps, run.form) == ([Verdict(CHOICES)], SCHEMA)


def test_stored_answers_do_not_count_against_a_form():
    _, run = ask(make_state(), PROSE, CHOICES)
    steps, run = ask(run, PROSE, CHOICES, stored=True)
    assert steps == [Send(TEXT), RetryLater(another_first=True)]


def test_after_unclear_refusal_one_part_is_omitted_at_a_time():
    results = [UNKNOWN_FORM] * 7
    forms = [step.form.name for step in ask(make_state(), *results)[0][:-1]]
    assert forms == [
        "chat/text/max_tokens",
        "chat/json_schema/max_tokens/seed",
        "chat/json_schema/max_tokens/temperature",
        "chat/json_schema/max_tokens/system",
        "chat/text/max_tokens/seed",
        "chat/text/max_tokens/seed/temperature",
    ] + ["chat/text/max_tokens/seed/system/temperature"] * (len(results) - 7)


def test_refused_part_stays_omitted():
    steps, _ = ask(make_state(), NO_TEMPERATURE, UNKNOWN_FORM)
    assert steps == [Send(SCHEMA.omit_parts("temperature")), Send(TEXT.omit_parts("temperature"))]


@pytest.mark.parametrize(
    ("settings", "change"),
    [({"temperature": 0.3}, "temperature"), ({"reasoning_effort": "low"}, "reasoning_effort")],
)
def test_parts_fixed_in_study_toml_are_never_omitted(settings, change):
    (step,), _ = ask(make_state(**settings), make_failure("rejected", change=change))
    assert f"does not accept {change} = " in step.reason
    named = {name for name in settings if name != "reasoning_effort"}
    guessed = [step.form.without for step in ask(make_state(**settings), *[UNKNOWN_FORM] * 3)[0]]
    assert not named & {name for names in guessed for name in names}


# Money: answers that cannot be used


def repeat_result(run, result, **more):
    """Answer all requests of a question with this result. Return the last step, the state and the count."""
    for count in range(1, 20):
        steps, after = ask(run, *[result] * count, **more)
        if not isinstance(steps[-1], Send):
            return steps[-1], after, count
    pytest.fail("the question is asked without an end")


@pytest.mark.parametrize(
    ("result", "setting"),
    [
        (CUT, "max_output_tokens"),
        (PROSE, "output"),
        (DECLINED, "another prompt"),
        (make_failure("unreadable"), "style"),
    ],
)
def test_ten_answers_without_verdict_end_a_run(result, setting):
    run = make_state(max_output_tokens=512)
    answers = 0
    for number in range(30):
        step, run, count = repeat_result(run, result, pair=f"p{number}")
        answers += count
        if isinstance(step, Stop):
            break
    assert answers == MOST_USELESS_ANSWERS == 10
    assert f"no verdict in 10 answers in a row, last with {result.kind} (words)" in step.reason
    assert setting in step.reason


@pytest.mark.parametrize(("run", "stored"), [(SETTLED, False), (make_state(), True)], ids=["again", "stored"])
def test_pair_that_failed_earlier_does_not_end_a_run(run, stored):
    for number in range(20):
        steps, run = ask(run, DECLINED, pair=f"p{number * stored}", stored=stored)
        assert steps == [Failure(DECLINED)]


def test_ten_failed_pairs_in_a_row_end_a_run_with_verdicts():
    run = SETTLED
    steps = []
    for number in range(10):
        steps, run = ask(run, CUT, pair=f"p{number}")
    assert "no verdict in 10 answers" in steps[0].reason
    _, run = ask(SETTLED, CUT)
    assert ask(run, CHOICES)[1].unjudged_pairs == ()


def test_ten_server_failures_in_a_row_end_a_run():
    run = SETTLED
    for _ in range(MOST_FAILURES - 1):
        (step,), run = ask(run, TOO_SLOW)
        run = update_failure_counts(run, step)
    (step,), _ = ask(run, TOO_SLOW)
    assert "10 times in a row, last with timeout (words)" in step.reason
    run = update_failure_counts(run, Verdict(CHOICES))
    assert ask(run, TOO_SLOW)[0] == [Failure(TOO_SLOW)]


@pytest.mark.parametrize(
    ("rejected", "requests"),
    [
        (UNKNOWN_FORM, [8, 8] + [1] * 8),
        (make_failure("rejected"), [1] * 10),
        (make_failure("too_long"), [1] * 10),
    ],
)
def test_ten_rejected_questions_end_a_run_without_verdicts(rejected, requests):
    """If the server does not say which part it refuses, all eight forms are tried on two questions."""
    run = make_state()
    counts = []
    for _ in range(MOST_FAILURES):
        step, run, count = repeat_result(run, rejected)
        counts.append(count)
        run = update_failure_counts(run, step) if isinstance(step, Failure) else run
    assert counts == requests
    assert f"10 times in a row, last with {rejected.kind} (words)" in step.reason
    assert ("a longer context" in step.reason) == (rejected.kind == "too_long")


@pytest.mark.parametrize(
    "run", [SETTLED, replace(make_state(), has_verdicts=True, rejections=DECIDING_QUESTIONS)]
)
def test_rejections_after_a_verdict_do_not_end_a_run(run):
    for _ in range(20):
        steps, run = ask(run, UNKNOWN_FORM)
        assert steps == [Failure(UNKNOWN_FORM)]
        run = update_failure_counts(run, steps[0])


# Reasoning: known by what the server does


@pytest.mark.parametrize(
    ("results", "reasoned", "limit"),
    [
        ([CHOICES], False, 512),
        ([CHOICES], True, REASONING_TOKENS),
        ([CUT], False, REASONING_TOKENS),
        ([NO_TEMPERATURE], False, REASONING_TOKENS),
        ([make_failure("rejected", change="limit")], False, REASONING_TOKENS),
        ([make_failure("rejected", change="seed")], False, 512),
    ],
)
def test_reasoning_model_gets_a_higher_token_limit(results, reasoned, limit):
    assert ask(make_state(), *results, reasoned=reasoned)[1].max_output_tokens == limit
    fixed = ask(make_state(max_output_tokens=700), *results, reasoned=reasoned)[1]
    assert fixed.max_output_tokens == 700


def test_cut_off_answer_is_repeated_with_a_higher_limit():
    assert ask(SETTLED, CUT)[0] == [Send(SCHEMA, 1)]
    assert ask(SETTLED, CUT, CUT)[0] == [Send(SCHEMA, 1), Failure(CUT)]


TOO_MANY = make_failure("rejected", change="fewer_tokens", fatal="so many tokens are too many")
TOO_LONG = make_failure("too_long", change="fewer_tokens")


@pytest.mark.parametrize("refused", [TOO_MANY, TOO_LONG])
def test_refused_token_limit_is_lowered(refused):
    """The limit is 8192 after an answer that was cut off, and a quarter of 8192 after the refusal."""
    steps, run = ask(make_state(), CUT, refused, CHOICES)
    assert steps == [Send(SCHEMA, 1), Send(SCHEMA, 1), Verdict(CHOICES)]
    assert run.max_output_tokens == 2048
    assert (run.form, run.refused_questions) == (SCHEMA, 0)
    steps, run = ask(run, CUT)
    assert (steps, run.max_output_tokens) == ([Failure(CUT)], 2048)


def test_refusal_of_the_lowest_token_limit_ends_the_run():
    steps, _ = ask(SETTLED, TOO_MANY)
    assert steps == [Stop("so many tokens are too many")]
    steps, _ = ask(make_state(limit=REASONING_TOKENS), TOO_MANY, TOO_MANY, TOO_MANY)
    assert steps == [Send(SCHEMA), Send(SCHEMA), Stop("so many tokens are too many")]


def test_too_long_text_does_not_lower_an_accepted_limit():
    _, run = ask(replace(SETTLED, max_output_tokens=REASONING_TOKENS), CHOICES)
    steps, run = ask(run, TOO_LONG, pair="a long one")
    assert steps == [Failure(TOO_LONG)]
    assert run.max_output_tokens == REASONING_TOKENS


def test_token_limit_fixed_in_study_toml_is_not_lowered():
    steps, _ = ask(replace(make_state(max_output_tokens=9000), is_settled=True), TOO_LONG)
    assert steps == [Failure(TOO_LONG)]


def test_endless_reasoning_omits_temperature_zero():
    """Some reasoning models repeat themselves without end at temperature 0."""
    steps, run = ask(make_state(), CUT, CHOICES, reasoned=True)
    assert steps == [Send(SCHEMA.omit_parts("temperature")), Verdict(CHOICES)]
    assert run.is_settled
    steps, _ = ask(make_state(temperature=0.0), CUT, reasoned=True)
    assert steps == [Send(SCHEMA, 1)]
