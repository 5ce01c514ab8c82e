"""Decide the next step after a judge's answer or failure, without a server or a database.

The first questions are asked one after the other until the form of requests is final. The strictest form is
replaced only after the server has refused or ignored this form on two questions. So a verdict in a simpler
form is accepted only after another question was asked in the strictest form. A reasoning model is recognised
in three ways: answers are cut off at the usual limit, answers count reasoning tokens, or the server refuses
parameters that reasoning models do not support.
"""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from guard_eval.records import record
from guard_eval.servers.failures import (
    ATTEMPTS,
    LONGEST_WAIT_SECONDS,
    MOST_FAILURES,
    OF_THE_SERVER,
    RESAMPLED,
    SAMPLES,
    FailureKind,
    RequestFailure,
)
from guard_eval.servers.form import Form
from guard_eval.study.judge_settings import Judge
from judge.prompts.forms import find_fixed_request_parts, list_simpler_request_forms
from judge.prompts.parsing import Choices

MOST_USELESS_ANSWERS = 10
"""A run without a verdict ends after this number of answers.

After the first verdict, a run ends after this number of pairs in a row without a verdict."""

DECIDING_QUESTIONS = 2
"""A form is replaced after the server has refused or ignored the form on this number of questions."""

USUAL_TOKENS = 512
REASONING_TOKENS = 8192
"""The default token limits of answers: `USUAL_TOKENS` at first, `REASONING_TOKENS` if the model reasons."""

REMEDIES: dict[FailureKind, str] = {
    "timeout": "set a longer timeout in study.toml; you may have paid for the lost answers",
    "truncated": "set a higher max_output_tokens in study.toml, or a lower reasoning_effort",
    "too_long": "name a model with a longer context in study.toml",
    "unparseable": "set another output in study.toml, or name another model",
    "wrong_schema": "set another output in study.toml, or name another model",
    "unreadable": "correct base_url, which usually ends in /v1, or style in study.toml",
    "refusal": "name another model in study.toml, or another prompt",
    "content_filter": "name another model or another base_url in study.toml",
}
"""The remedies for failed questions, by kind of failure."""


@record
class Reply:
    """The result of one request.

    Attributes:
        form: The form of the request.
        result: The verdict, or the failure.
        max_output_tokens: The token limit of the request.
        answered: Whether there was an answer, which is stored and may have cost money.
        is_new: Whether the answer came in this run. Other answers are read from the store.
        reasoned: Whether the answer shows that the model reasons.
    """

    form: Form
    result: Choices | RequestFailure
    max_output_tokens: int
    answered: bool = False
    is_new: bool = False
    reasoned: bool = False

    @property
    def error(self) -> RequestFailure | None:
        """Return the failure, or None for a verdict."""
        return self.result if isinstance(self.result, RequestFailure) else None


@record
class RunState:
    """The state of a judge's run.

    Attributes:
        judge: The study's settings for the judge.
        preferred_form: The form to try first: the strictest form, or a simpler form that replaced it.
        max_output_tokens: The token limit of the next requests.
        highest_token_limit: The highest token limit that the server may accept.
        highest_answered_limit: The highest token limit of a request that was answered.
        has_verdicts: Whether an earlier run with these settings got verdicts.
        is_settled: Whether the form is final because a verdict was accepted.
        fallback_form: The simpler form that gave a verdict.
        refused_questions: The number of questions on which the preferred form was refused or ignored.
        unjudged_pairs: The ids of the pairs of all answers without a verdict since the last verdict.
        failures: The number of questions in a row that the server failed to answer. Before the first verdict,
            rejected questions count, too.
        rejections: The number of questions since the last verdict that the server rejected in every form.
    """

    judge: Judge
    preferred_form: Form
    max_output_tokens: int
    highest_token_limit: int = REASONING_TOKENS
    highest_answered_limit: int = 0
    has_verdicts: bool = False
    is_settled: bool = False
    fallback_form: Form | None = None
    refused_questions: int = 0
    unjudged_pairs: tuple[str, ...] = ()
    failures: int = 0
    rejections: int = 0

    @property
    def form(self) -> Form:
        """The form of the next question's request: the preferred form, or the fallback form."""
        if self.fallback_form is None or self.refused_questions < DECIDING_QUESTIONS:
            return self.preferred_form
        return self.fallback_form


@record
class History:
    """The replies to a question, and the state of the run, from which the next step is decided.

    Attributes:
        run: The state of the judge's run.
        pair_id: The id of the question's pair.
        replies: The results of requests about this question, oldest first.
        has_other_questions: Whether another question can be asked first.
    """

    run: RunState
    pair_id: str = ""
    replies: tuple[Reply, ...] = ()
    has_other_questions: bool = False


class Send(NamedTuple):
    """The decision to send a request in this form. Each further sample of an answer has another number."""

    form: Form
    sample: int = 0


class RetryLater(NamedTuple):
    """The decision to send the same request again after a pause, or to ask another question first.

    Attributes:
        attempts: The number of failed requests. The pause is longer after more failures.
        seconds: The shortest pause that the server allows.
        another_first: Whether to ask another question first, and then start again with this question.
    """

    attempts: int = 0
    seconds: float = 0.0
    another_first: bool = False


class Verdict(NamedTuple):
    """The decision that a question is finished because it has a verdict."""

    choices: Choices


class Failure(NamedTuple):
    """The decision to leave a question without a verdict in this run."""

    error: RequestFailure


class Stop(NamedTuple):
    """The decision to end the run, with a message for the user."""

    reason: str


Step = Send | RetryLater | Verdict | Failure | Stop


def record_reply(history: History, reply: Reply) -> History:
    """Return the history with a new reply and with the updated state of the run."""
    run = history.run
    history = replace(history, replies=(*history.replies, reply))
    if reply.error is None:
        run = replace(run, unjudged_pairs=())
        is_accepted = (
            reply.form == run.form
            or run.refused_questions >= DECIDING_QUESTIONS
            or not history.has_other_questions
        )
        if is_accepted and not run.is_settled:
            run = replace(run, preferred_form=reply.form, fallback_form=None, is_settled=True)
        elif not run.is_settled:
            run = replace(run, fallback_form=reply.form)
    else:
        if reply.answered and reply.is_new:
            run = replace(run, unjudged_pairs=(*run.unjudged_pairs, history.pair_id))
        is_first = [answer.form for answer in history.replies].count(run.preferred_form) == 1
        blames_form = reply.error.change not in (None, "fewer_tokens")
        if blames_form and reply.is_new and reply.form == run.preferred_form and is_first:
            run = replace(run, refused_questions=run.refused_questions + 1)
    if run.judge.max_output_tokens is None:
        run = _adjust_token_limit(run, reply)
    return replace(history, run=run)


def _adjust_token_limit(run: RunState, reply: Reply) -> RunState:
    """Raise the token limit if the model reasons, and lower the limit if the server refuses the limit.

    If an answer is cut off while the model reasons, the temperature of 0 is also left out, because some
    reasoning models repeat themselves without end at temperature 0.
    """
    change = reply.error and reply.error.change
    is_cut = reply.error is not None and reply.error.kind == "truncated"
    if reply.answered:
        run = replace(run, highest_answered_limit=max(run.highest_answered_limit, reply.max_output_tokens))
    if change == "fewer_tokens":
        lower = max(USUAL_TOKENS, reply.max_output_tokens // 4)
        if run.highest_answered_limit < reply.max_output_tokens:  # otherwise, only this question is too long
            run = replace(run, max_output_tokens=lower, highest_token_limit=lower)
    elif reply.reasoned or is_cut or change in ("limit", "temperature"):
        run = replace(run, max_output_tokens=run.highest_token_limit)
    if is_cut and reply.reasoned and not run.is_settled and run.judge.temperature is None:
        run = replace(run, preferred_form=run.preferred_form.omit_parts("temperature"))
    return run


def update_failure_counts(run: RunState, step: Verdict | Failure) -> RunState:
    """Return the run's state with the counts of failures after a question is finished."""
    if not isinstance(step, Failure):
        return replace(run, failures=0, rejections=0)
    failures = run.failures + 1 if _is_server_failure(run, step.error) else 0
    return replace(run, failures=failures, rejections=run.rejections + (step.error.kind == "rejected"))


def _is_server_failure(run: RunState, error: RequestFailure) -> bool:
    """Return whether the server caused a failure. Before the first verdict, every refusal counts, too."""
    says_nothing = error.kind in ("rejected", "too_long") and not (run.is_settled or run.has_verdicts)
    return says_nothing or error.blames_address or error.kind in OF_THE_SERVER


def decide_next_step(history: History, form: Form) -> Step:
    """Decide the next step after the last reply to a question.

    Args:
        history: The question's history, including the last reply.
        form: The form of the last request, or of the first one if there is none yet.
    """
    run = history.run
    if not history.replies:
        return Send(form)
    reply = history.replies[-1]
    error = reply.result
    if not isinstance(error, RequestFailure):
        return Verdict(error) if run.is_settled else RetryLater(another_first=True)
    wasted = set(run.unjudged_pairs) if run.is_settled else run.unjudged_pairs
    if len(wasted) >= MOST_USELESS_ANSWERS:
        return stop_after_unreadable_answers(run, error, len(run.unjudged_pairs))
    if error.change == "fewer_tokens" and run.max_output_tokens < reply.max_output_tokens:
        return Send(form, len(_list_answers_to_request_form(history, form)))
    step = None if run.is_settled else _choose_untried_request_form(history, form, error)
    if step is not None:
        return step
    return (
        _decide_after_unreadable_answer(history, form, error)
        if reply.answered
        else _decide_after_failed_request(history, error)
    )


def stop_after_unreadable_answers(run: RunState, error: RequestFailure, count: int) -> Stop:
    """Return the decision to end the run, with a message about the answers without a verdict."""
    remedy = REMEDIES.get(error.kind, "name another model in study.toml")
    return Stop(
        f"the judge {run.judge.rater_name!r} gave no verdict in {count} answers in a row, last with "
        f"{error.kind} ({error.detail}), so no more requests are sent. To continue, "
        f"{remedy}. Then run the command again"
    )


def _choose_untried_request_form(history: History, form: Form, error: RequestFailure) -> Send | Stop | None:
    """If the form may have caused the failure, return the decision to send the next untried form."""
    run = history.run
    tried = {reply.form for reply in history.replies}
    if run.form not in tried:  # the form changed during this question
        return Send(run.form)
    failed = _count_failures_since_answer(history)
    is_passing = error.kind == "server_error" and failed.total() == 1
    is_over = failed[error.kind] >= ATTEMPTS.get(error.kind, failed[error.kind] + 1)
    is_futile = error.change == "guess" and run.rejections >= DECIDING_QUESTIONS
    is_fixed = error.change == "responses" and run.judge.style != "auto"
    if error.change is None or is_passing or is_over or is_futile or is_fixed:
        return None
    takes_text = error.change == "output" and form.output == "text"
    if error.change in find_fixed_request_parts(run.judge) and not takes_text:
        value = getattr(run.judge, error.change)
        return Stop(
            f"the server of the judge {run.judge.model!r} does not accept {error.change} = {value!r} "
            f"({error.detail}). Remove {error.change} from study.toml, or name another model"
        )
    candidates = iter([form.apply_change(error.change)])
    if error.change == "guess":
        base = next(reply.form for reply in history.replies if reply.error and reply.error.change == "guess")
        candidates = list_simpler_request_forms(base, run.judge)
    return next((Send(other) for other in candidates if other not in tried), None)


def _decide_after_unreadable_answer(
    history: History, form: Form, error: RequestFailure
) -> Send | Failure | Stop:
    """Ask for another sample after an answer without a verdict, up to three in all.

    An answer that was cut off at a lower token limit than the current limit does not count.
    """
    limit = history.run.max_output_tokens
    answers = _list_answers_to_request_form(history, form)
    full = [reply for reply in answers if reply.max_output_tokens >= limit]
    is_cut = error.kind == "truncated" and answers[-1] not in full
    if is_cut or (error.kind in RESAMPLED and len(full) < SAMPLES):
        return Send(form, len(answers))
    return _decide_failure_or_stop(history.run, error)


def _decide_after_failed_request(history: History, error: RequestFailure) -> RetryLater | Failure | Stop:
    """Decide to send a failed request again, unless too many attempts failed or only the user can help."""
    if (error.wait or 0.0) > LONGEST_WAIT_SECONDS:
        return Stop(
            f"the server asks to wait {error.wait:.0f} seconds before the next request. Run the command "
            "again after this time. Stored answers are not paid for again"
        )
    failed = _count_failures_since_answer(history)
    is_passing = history.run.is_settled and (error.kind == "transport" or error.blames_address)
    attempts = ATTEMPTS["transport"] if is_passing else ATTEMPTS.get(error.kind, 1)
    if not error.too_slow and failed[error.kind] < attempts:
        return RetryLater(failed.total(), error.wait or 0.0)
    if error.fatal and not is_passing:
        return Stop(error.fatal)
    return _decide_failure_or_stop(history.run, error)


def _list_answers_to_request_form(history: History, form: Form) -> list[Reply]:
    return [reply for reply in history.replies if reply.answered and reply.form == form]


def _count_failures_since_answer(history: History) -> Counter[FailureKind]:
    """Count the failed requests after the last answer, by kind of failure."""
    failed: Counter[FailureKind] = Counter()
    for reply in reversed(history.replies):
        if reply.answered or reply.error is None:
            break
        failed[reply.error.kind] += 1
    return failed


def _decide_failure_or_stop(run: RunState, error: RequestFailure) -> Failure | Stop:
    if not _is_server_failure(run, error) or run.failures + 1 < MOST_FAILURES:
        return Failure(error)
    remedy = REMEDIES.get(error.kind, "fix the server or the settings")
    return Stop(
        f"the judge {run.judge.rater_name!r} failed {MOST_FAILURES} times in a row, last with {error.kind} "
        f"({error.detail}). All answers are saved. To continue, {remedy}. Then run the command again"
    )
