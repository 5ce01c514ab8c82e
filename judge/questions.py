"""What a judge is asked: the key, the bytes and the verdict of each question, and how a judge is a rater."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from guard_eval.errors import StudyError
from guard_eval.records import Plan, settings_part
from guard_eval.rubric import reworded
from guard_eval.store import Store, requests
from guard_eval.store import settings as store_settings
from guard_eval.store.requests import Answered, Question
from guard_eval.study.declared import compare_declared
from guard_eval.study.judge_settings import Judge
from judge.failures import RESAMPLED, SAMPLES, JudgeError
from judge.prompts.forms import Form, build_request, temperature_of
from judge.prompts.parsing import Choices, parse
from judge.prompts.prompt import code, prompt_of


def read_left(store: Store, judge: Judge, *, seed: int) -> list[Question]:
    """Return the questions that have no verdict of the judge, in the order in which they are asked."""
    one_order = judge.orders == "one"
    plan = Plan(seed=seed, slots=2 * judge.samples, lease=timedelta(minutes=1), one_order=one_order)
    with store.read() as db:
        return requests.read_questions(db, judge.rater_name, plan)


class Asker:
    """Makes one judge's requests and reads their answers.

    Attributes:
        judge: The study's settings for this judge.
        form: The form in which it is asked at present.
    """

    def __init__(self, judge: Judge, *, seed: int) -> None:
        self.judge = judge
        self.form = Form.first(judge)
        self._seed = seed
        self._prompt = prompt_of(judge)
        self._titles = {each.name: each.title for each in self._prompt.criteria}
        self._settings = [
            judge.rater_name, self._prompt.version, judge.model, judge.criteria, temperature_of(judge),
            judge.reasoning_effort, judge.output, judge.base_url and judge.base_url.rstrip("/"),
            judge.extra_body, judge.answering_headers,
        ]  # fmt: skip

    def key(self, question: Question, resample: int = 0) -> str:
        """Return the 64 hexadecimal digits that name a request: a SHA-256 of all that the study decides.

        The judge's name is part of it, so two judges of the same settings share no answer. study.toml's
        `base_url` counts, since another server may serve the model in another precision. The form of the
        request and its token limit do not count.

        Args:
            question: What is asked.
            resample: How often it was asked before because an answer could not be read.
        """
        blind = question.blind
        texts = [blind.prompt, blind.text_a, blind.text_b]
        where = [question.purpose, question.pair_id, question.number, resample]
        parts = json.dumps([self._settings, self._seed, where, texts], sort_keys=True)
        return hashlib.sha256(parts.encode()).hexdigest()

    def build(self, question: Question, resample: int = 0) -> bytes:
        """Return the request in the present form. Its own seed follows from the sample."""
        messages = self._prompt.messages(question.blind, self._seed, lines=self.form.output == "text")
        name = f"{self._seed}:{question.number // 2}:{resample}:{question.purpose}"
        digest = hashlib.sha256(name.encode()).digest()
        seed = int.from_bytes(digest[:4]) >> 1  # servers take signed 32-bit seeds
        return build_request(self.judge, messages, self.form, seed=seed)

    def read(self, question: Question, answers: Sequence[Answered]) -> tuple[Choices | JudgeError, bool]:
        """Return the verdict in a question's last answer, or why it has none, and whether it is the last.

        Another sample follows an answer that cannot be read, up to three in all, and one that was cut at a
        lower token limit than the present one. Answers under a lower limit do not count among the three.
        """
        judge, body = self.judge, answers[-1].response
        outcome = parse(body, judge.criteria, code=code(question.blind, self._seed), titles=self._titles)
        if not isinstance(outcome, JudgeError):
            return outcome, True
        if outcome.kind in ("unparseable", "wrong_schema") and judge.output == "auto":
            outcome = replace(outcome, change="output")  # the server ignores the schema
        full = [each for each in answers if each.max_output_tokens >= judge.max_output_tokens]
        cut = outcome.kind == "truncated" and answers[-1] not in full
        is_last = not cut and (outcome.kind not in RESAMPLED or len(full) >= SAMPLES)
        return replace(outcome, row=answers[-1].row), is_last

    def conclude_all(self, store: Store, questions: Sequence[Question]) -> list[Choices | JudgeError | int]:
        """Return the verdict in each question's stored answers, their error, or which sample to ask."""
        known: list[list[Answered]] = [[] for _ in questions]
        outcomes: list[Choices | JudgeError | int] = [0] * len(questions)
        undecided = list(range(len(questions)))
        while undecided:
            keys = {index: self.key(questions[index], len(known[index])) for index in undecided}
            with store.read() as db:
                answers = requests.read_answers(db, list(keys.values()))
            undecided = []
            for index, key in keys.items():
                outcomes[index] = len(known[index])
                if key in answers:
                    known[index].append(answers[key])
                    outcomes[index], is_last = self.read(questions[index], known[index])
                    if not is_last:
                        undecided.append(index)
        return outcomes


def check_criteria(store: Store, judge: Judge) -> None:
    """Check that the judge is asked on the criteria on which it has judged, in words that were used before.

    Raises:
        StudyError: It is not, so some pairs would be judged on these and some on those.
    """
    name = judge.rater_name
    with store.read() as db:
        before, now = requests.read_criteria(db, name), set(judge.criteria)
    if before and before != now:
        raise StudyError(
            f"the judge {name!r} has judged pairs of this study on {', '.join(sorted(before))}, and is now "
            f"asked on {', '.join(sorted(now))}; take back the change in study.toml, or give the judge a new "
            'name there (name = "…"), under which it starts anew'
        )
    if changed := reworded(store_settings.criteria(store), judge.rubric):
        raise StudyError(
            f"study.toml rewords a criterion that has verdicts: {'; '.join(changed)}; take back the change, "
            "or define the new words as a criterion of another name"
        )


def describe_changes(store: Store, judge: Judge) -> tuple[str, ...]:
    """Return how the judge's settings differ from those of its first verdict, setting by setting."""
    part = settings_part(judge.rater_name, "model")
    if part not in store.declared_now:
        return ()
    first = {part: store_settings.declared(store, part)}
    (compared,) = compare_declared({part: store.declared_now[part]}, first)
    return tuple(each for each in compared.changes if each.startswith(("judge.", "criteria.", "seed ")))
