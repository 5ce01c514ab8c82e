"""List a judge's questions, make the key and the body of each request, and read the verdicts in answers."""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, HandOutPlan, find_declared_part_of_rater, hash_text
from guard_eval.servers.answers import has_model_reasoned, read_usage
from guard_eval.servers.failures import RESAMPLED, RequestFailure
from guard_eval.servers.form import Form
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store import settings as store_settings
from guard_eval.store.judging import requests
from guard_eval.store.judging.requests import AnsweredRequest, Instruction, Question
from guard_eval.study.judge_settings import Judge
from judge.decide import (
    DECIDING_QUESTIONS,
    REASONING_TOKENS,
    USUAL_TOKENS,
    History,
    Reply,
    RunState,
    Send,
    Step,
    decide_next_step,
    record_reply,
)
from judge.prompts.forms import build_request, choose_first_request_form, choose_temperature, format_request
from judge.prompts.parsing import parse_response
from judge.prompts.prompt import compare_prompt_with_paper, make_prompt, make_verdict_block_code

PLACEHOLDERS = BlindPair(
    presentation=0, prompt="[the prompt]", text_a="[one text]", text_b="[the other text]"
)
"""Placeholders for the texts of a pair, to show a request without real texts."""


def make_judge_hand_out_plan(judge: Judge, *, seed: int) -> HandOutPlan:
    """Return the rules by which pairs are given to a judge: seed, orders, number of samples, and lease."""
    return HandOutPlan(
        seed=seed, slots=2 * judge.samples, lease=timedelta(minutes=1), one_order=judge.orders == "one"
    )


def read_unjudged_questions(store: Store, judge: Judge, *, seed: int) -> list[Question]:
    """Return the judge's questions without a verdict, in the order in which they are asked.

    In a study with rounds, fewer questions may be asked, because comparisons can stop early.
    """
    with store.begin_read() as db:
        return requests.read_open_questions(db, judge.rater_name, make_judge_hand_out_plan(judge, seed=seed))


def split_questions_into_rounds(
    store: Store, judge: Judge, plan: HandOutPlan, unanswered: Sequence[Question]
) -> Iterator[list[Question]]:
    """Yield the unanswered questions of each round. A round begins after all earlier rounds are over."""
    waiting = set(unanswered)
    while True:
        with store.begin_write() as (db, now):
            due = requests.read_due_questions(db, now, judge.rater_name, plan)
        questions = [question for question in due if question in waiting]
        if not questions:
            return
        waiting.difference_update(questions)
        yield questions


class RequestBuilder:
    """Makes one judge's requests and reads their answers.

    Attributes:
        judge: The study's settings for this judge.
        settings: A hash (64 hexadecimal digits) of all settings that change the judge's requests.
    """

    def __init__(self, judge: Judge, *, seed: int) -> None:
        self.judge = judge
        self._seed = seed
        self._prompt = replace(make_prompt(judge), seed=seed)
        self._block_prompt = replace(self._prompt, as_verdict_block=True)
        self._titles = {criterion.name: criterion.title for criterion in self._prompt.criteria}
        self.settings = _hash_as_json(
            judge.rater_name,
            self._prompt.version,
            judge.model,
            judge.criteria,
            choose_temperature(judge),
            judge.reasoning_effort,
            judge.output,
            judge.base_url and judge.base_url.rstrip("/"),
            judge.extra_body,
            judge.headers_affecting_answers,
            seed,
        )

    def make_request_key(self, question: Question, form: Form, sample: int = 0) -> str:
        """Return a request's key: a SHA-256 (64 hexadecimal digits) of everything that changes the answer.

        The key contains the judge's name, so two judges with the same settings have separate answers. The key
        contains `base_url`, because another server may run the model in another precision. The token limit is
        not in the key.

        Args:
            question: The question.
            form: The form of the request.
            sample: The number of earlier answers in this form without a verdict.
        """
        blind = question.blind
        where = (question.purpose, question.pair_id, question.number, sample)
        return _hash_as_json(self.settings, form.name, where, (blind.prompt, blind.text_a, blind.text_b))

    def build_request_body(
        self, question: Question, form: Form, sample: int = 0, *, max_output_tokens: int
    ) -> bytes:
        """Return the JSON body of a request. The request's seed depends on the number of the sample."""
        name = f"{self._seed}:{question.number // 2}:{sample}:{question.purpose}"
        prompt = self._prompt if form.output == "json_schema" else self._block_prompt
        return build_request(
            self.judge,
            prompt.write_messages(question.blind),
            form,
            seed=int(hash_text(name)[:8], 16) >> 1,  # servers take signed 32-bit seeds
            max_output_tokens=max_output_tokens,
        )

    def make_instruction(self, form: Form, *, max_output_tokens: int) -> Instruction:
        """Return the instruction that a form of requests contains, with placeholders for the texts."""
        question = Question(pair_id="", number=0, blind=PLACEHOLDERS)
        return Instruction(
            id=_hash_as_json(self.settings, form.name),
            settings=self.settings,
            form=form.name,
            manner=form.describe(),
            prompt=self._prompt.version,
            description=compare_prompt_with_paper(self.judge) or "the paper's prompt",
            text=format_request(self.build_request_body(question, form, max_output_tokens=max_output_tokens)),
        )

    def make_initial_run_state(self, store: Store) -> RunState:
        """Return the state of a run before the first request.

        If a form of requests gave this judge verdicts, the form is used again. So all verdicts of the judge
        have the same form of request.
        """
        judge = self.judge
        with store.begin_read() as db:
            forms = requests.FORMS_WITH_VERDICTS(db, settings=self.settings).all()
        best = choose_first_request_form(judge)
        limit = REASONING_TOKENS if judge.asks_to_reason else USUAL_TOKENS
        for name, verdicts, used_limit in forms[:1]:
            limit = max(limit, used_limit)
            if verdicts >= DECIDING_QUESTIONS:
                best = Form.parse(name)
        return RunState(
            judge=judge,
            preferred_form=best,
            max_output_tokens=judge.max_output_tokens or limit,
            has_verdicts=bool(forms),
        )

    def read_answer(
        self, question: Question, form: Form, answer: AnsweredRequest, *, is_new: bool = False
    ) -> Reply:
        """Read the verdict or the failure in an answer to a request of this form."""
        code = make_verdict_block_code(question.blind, self._seed)
        outcome = parse_response(
            answer.response, self.judge.criteria, tag_code=code, criterion_titles=self._titles
        )
        if isinstance(outcome, RequestFailure):
            written = read_usage(answer.response).output_tokens or 0
            if outcome.kind in RESAMPLED and written >= answer.max_output_tokens:  # whatever else it says
                outcome = replace(outcome, kind="truncated")
            ignored = outcome.kind in ("unparseable", "wrong_schema") and self.judge.output == "auto"
            outcome = replace(outcome, row=answer.row, change="output" if ignored else outcome.change)
        return Reply(
            form=form,
            result=outcome,
            max_output_tokens=answer.max_output_tokens,
            answered=True,
            is_new=is_new,
            reasoned=self.judge.max_output_tokens is None and has_model_reasoned(answer.response),
        )

    def replay_stored_answers(
        self, store: Store, questions: Sequence[Question], run: RunState
    ) -> list[tuple[Question, Step, RequestFailure | None]]:
        """Return the next step of each question after its stored answers, and the last answer's failure."""
        settled = replace(run, is_settled=True, failures=0)
        histories = [History(run=settled, pair_id=question.pair_id) for question in questions]
        steps: list[Step] = [Send(run.form)] * len(questions)
        samples = dict.fromkeys(range(len(questions)), 0)  # which sample of an undecided question is next
        while samples:
            indices = {
                self.make_request_key(questions[index], run.form, sample): index
                for index, sample in samples.items()
            }
            with store.begin_read() as db:
                stored = dict(requests.read_active_requests(db, list(indices)))
            samples = {}
            for key, answer in stored.items():
                if not isinstance(answer, AnsweredRequest):
                    continue
                index = indices[key]
                reply = self.read_answer(questions[index], run.form, answer)
                history = histories[index] = record_reply(histories[index], reply)
                step = steps[index] = decide_next_step(history, run.form)
                if isinstance(step, Send):
                    samples[index] = step.sample
        errors = [history.replies[-1].error if history.replies else None for history in histories]
        return list(zip(questions, steps, errors, strict=True))


def _hash_as_json(*parts: object) -> str:
    return hash_text(json.dumps(parts, sort_keys=True))


def refuse_examples_from_study(store: Store, judge: Judge) -> None:
    """Check that no example in the judge's prompt contains a text of the study and so reveals a verdict.

    Raises:
        StudyError: An example contains a pair or a text of the study.
    """
    if not judge.judged_examples:
        return
    owners: dict[str, str] = {}
    for pair in store_pairs.read_pairs(store):
        names = pair.id, pair.continuation_a, pair.continuation_b, pair.text_a, pair.text_b
        owners |= {_normalize_space(name): pair.id for name in names if name.strip()}
    for number, example in enumerate(judge.judged_examples, start=1):
        for value in (example.id or "", example.a, example.b):
            if (pair_id := owners.get(_normalize_space(value))) is not None:
                raise StudyError(
                    f"example {number} of the judge {judge.rater_name!r} has the id or a text of the study's "
                    f"pair {pair_id}, so it would reveal a verdict. Use an example with other texts"
                )


def _normalize_space(text: str) -> str:
    """Return a text with normalized white space and Unicode form."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def check_criteria_unchanged(store: Store, judge: Judge) -> None:
    """Check that the judge's criteria, and their wording, have not changed since the first verdict.

    Raises:
        StudyError: The criteria have changed, so pairs would be judged on different criteria.
    """
    name = judge.rater_name
    with store.begin_read() as db:
        before = set(requests.JUDGED_CRITERIA(db, judge=name).scalars())
    now = set(judge.criteria)
    if before and before != now:
        raise StudyError(
            f"the judge {name!r} has judged pairs of this study on {', '.join(sorted(before))}, but "
            f"study.toml now names {', '.join(sorted(now))}. Undo the change, or give the judge a new name "
            '(name = "…"). A judge with a new name judges all pairs'
        )
    if changed := store_settings.describe_reworded_criteria(store, judge.rubric):
        raise StudyError(
            f"study.toml rewords a criterion that has verdicts: {'; '.join(changed)}. Undo the change, or "
            "define the new words as a criterion with another name"
        )


def describe_setting_changes(store: Store, judge: Judge) -> tuple[str, ...]:
    """Describe the changes of the judge's settings since the judge's first verdict."""
    part_name = find_declared_part_of_rater(judge.rater_name, "model")
    if part_name not in store.declared_now:
        return ()
    (compared,) = store_settings.compare_with_first_verdicts(store, part_name)
    return tuple(change for change in compared.changes if change.startswith(("judge.", "criteria.", "seed ")))
