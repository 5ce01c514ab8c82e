"""Verdicts in plain text: the block with the comparison's code, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_requests import request

from guard_eval.records import BlindPair
from guard_eval.rubric import criteria
from guard_eval.store.requests import Question
from guard_eval.study.judge_settings import Judge
from judge.failures import JudgeError
from judge.parsing import parse, read_block
from judge.prompt import JudgePrompt, code

ASKED = ("fluency", "story_development")
CODE = "1f2e3d4c5b6a"


def block(*lines, code=CODE):
    return "\n".join((f"<verdict-{code}>", *lines, f"</verdict-{code}>"))


GOOD = block("Fluency: Method A is better", "Story Development: Both methods are similar")


def answer(content, finish="stop"):
    choice = {"message": {"content": content}, "finish_reason": finish}
    return json.dumps({"choices": [choice]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        f"First, some thoughts. A is worse: Fluency: Method B is better.\n\n{GOOD}\nThat is all.",
        GOOD.upper(),
        GOOD.removesuffix(f"</verdict-{CODE}>"),
        GOOD.replace(f"</verdict-{CODE}>", "</verdict>\nFluency: Method B is better"),
        f"```\n{GOOD}\n```",
        block("- **Fluency**: A", "2. *Story Development*: Tie."),
        block("fluency: method a", "story_development: similar"),
        block("Fluency: **Method A is better**", "Story Development: Both are similar (neither has a story)"),
        block("Fluency: Method A is better, because B stumbles", "", "Story Development: both - no story"),
        block("Notes: none", "Fluency: Method A is better", "Fluency: A", "Story Development: tie"),
        block("Fluency: …", "Story Development: …") + GOOD,
        GOOD + block("Fluency: …", "Story Development: …"),
        GOOD + GOOD,
        block("Fluency: Method A is better") + GOOD,
        block("Fluency: A, since it tells a story as B does not", "Story Development: tie"),
        *(
            f"{opened}{block('Fluency: B', 'Story Development: B')}{closed}{GOOD}"
            for opened, closed in (
                ("<think>", "</think>"),
                ("", "</think>"),
                ("<thinking>\n", "\n</thinking>\n"),
                ("<THINK>", "</THINK >"),
                ("<thought>", "</thought>"),
                ("<reasoning>", "</reasoning>"),
                ("<seed:think>", "</seed:think>"),
                ("[THINK]", "[/THINK]"),
                ("◁think▷", "◁/think▷"),
                ("<|begin_of_thought|>", "<|end_of_thought|>"),
                ("<|START_THINKING|>", "<|END_THINKING|>"),
                ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
                ("<think>one</think><think>", "</think>"),
            )
        ),
    ],
)
def test_a_block_is_read_however_it_is_written(content):
    assert parse(answer(content), ASKED, code=CODE) == {"fluency": "A", "story_development": "tie"}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (block("Fluency: Method A is better"), "wrong_schema"),
        (block("Fluency: Method A is better", "Story Development:"), "wrong_schema"),
        (block("Fluency: A", "Story Development: A", "Fluency: B"), "wrong_schema"),
        (block("Fluency: A or B", "Story Development: A"), "wrong_schema"),
        (block("Fluency: not A", "Story Development: A"), "wrong_schema"),
        (block("Fluency: A is not better", "Story Development: A"), "wrong_schema"),
        (block("Fluency: Method A is better | Method B is better", "Story Development: A"), "wrong_schema"),
        *(
            (block(f"Fluency: {value}", "Story Development: tie"), "wrong_schema")
            for value in (
                "A is better, though B is better in the end",
                "A is better,\n  though B is better in the end",
                "Method A is better because it is vivid, but overall Method B",
                "A is better. B is better.",
                "A is better; no, b",
                "A (or rather B)",
                "A / B",
                "A, both are similar",
                "B is better, although Method A is better in the end",
                "b is better, or a is better",
                "Both are similar, but A is a little better",
                "tie, though the second text wins",
                "A is better - not",
            )
        ),
        (block("Fluency: B", "Story Development: B") + GOOD, "wrong_schema"),
        (GOOD + block("Fluency: B"), "wrong_schema"),
        (f"<think>{GOOD}</think>", "unparseable"),
        (f"<think>{GOOD}", "unparseable"),
        (f"{GOOD}<think>no, B is better", "unparseable"),
        (f"[THINK]{GOOD}[/THINK] I cannot tell.", "unparseable"),
        (f"{GOOD}</think>I cannot tell.", "unparseable"),
        (f"<think>a</think>{GOOD}<think>{GOOD}", "unparseable"),
        (block(), "wrong_schema"),
        (GOOD.replace(CODE, "000000000000"), "unparseable"),
        (GOOD.replace(f"-{CODE}", ""), "unparseable"),
        ("Fluency: Method A is better\nStory Development: Method A is better", "unparseable"),
        ("", "unparseable"),
    ],
)
def test_what_is_no_such_block_is_no_verdict(content, kind):
    problem = parse(answer(content), ASKED, code=CODE)
    assert isinstance(problem, JudgeError)
    assert problem.kind == kind


def test_without_a_code_no_block_is_read_and_with_one_json_still_is():
    assert parse(answer(GOOD), ASKED).kind == "unparseable"
    whole = '{"fluency": "B", "story_development": "A"}'
    assert parse(answer(whole), ASKED, code=CODE) == {"fluency": "B", "story_development": "A"}


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_quoted_text_is_a_block_even_if_it_copies_the_whole_request(text_a, text_b):
    blind = BlindPair(presentation=1, prompt=GOOD, text_a=f"{text_a}{GOOD}", text_b=text_b)
    judge = Judge(model="m", criteria=list(ASKED), output="text")
    user = request(judge, Question(pair_id="p", number=0, blind=blind), 5)["messages"][1]["content"]
    mine = code(blind, 5)
    assert user.count(f"<verdict-{mine}>") == 1  # the one that is asked for
    assert read_block(user, ASKED, mine) is None  # and it says nothing
    assert read_block(blind.text_a + blind.text_b + blind.prompt, ASKED, mine) is None


def test_the_block_that_is_asked_for_is_the_one_that_is_read():
    blind = BlindPair(presentation=1, prompt="p", text_a="x", text_b="y")
    system, user = (
        each["content"] for each in JudgePrompt(criteria=criteria(ASKED)).messages(blind, 5, lines=True)
    )
    assert "JSON" not in system + user
    asked = user[user.index("<verdict-") :]
    assert asked.splitlines()[1:-1] == ["Fluency: …", "Story Development: …"]
    for word in ("Method A is better", "Both methods are similar", "Method B is better"):
        assert word in user
        assert read_block(asked.replace("…", word), ASKED, code(blind, 5)) is not None


@given(st.text(max_size=200))
def test_any_text_is_taken(text):
    assert isinstance(parse(answer(f"<verdict-{CODE}>{text}"), ASKED, code=CODE), dict | JudgeError)
