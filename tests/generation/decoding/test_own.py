"""Users' own strategies are loaded from files and run in every engine. Bad files are refused."""

import re
from dataclasses import dataclass

import pytest
import torch
from refusals import expect_refusal
from stepping import Follower

from guard_eval.errors import StudyError
from guard_eval.generation.strategies import Chain, Penalty, apply_step, own, parse, signature

HEAD = """
from dataclasses import dataclass
from typing import ClassVar, Literal
import torch
from guard_eval.generation.strategies import Penalty, Sampler, apply_step, initial_state, update_state

"""
CLASS = "@dataclass(frozen=True, kw_only=True)\nclass {name}(Sampler):\n{body}\n"
PLAIN = "    a: float = 1\n"
IDENTITY = "@apply_step.register(A)\ndef _(strategy, logits, context):\n    return logits\n"
EXAMPLES = (
    HEAD
    + """
@dataclass(frozen=True, kw_only=True)
class LastTokens(Penalty):
    n: int = 3

@apply_step.register
def last_tokens(strategy: LastTokens, logits, context):
    recent = context.tokens[:, -strategy.n:]
    seen = torch.zeros_like(logits).scatter(1, recent.clamp(min=0), 1.0)
    return logits - 9 * seen


@dataclass(frozen=True, kw_only=True)
class Wave(Sampler):
    kind: Literal["up", "down"] = "up"

@initial_state.register
def first(strategy: Wave):
    return [1.0, 0.5]

@apply_step.register
def wave(strategy: Wave, logits, context):
    logits *= context.state[:, :1].float()  # it may work in place
    return logits + 0.01 * (context.written >= 0).sum(-1, keepdim=True)

@update_state.register
def turn(strategy: Wave, state, logits, tokens):
    turned = torch.stack([state[:, 1] + 0.1 * (tokens % 5), 0.9 * state[:, 0]], 1)
    state.copy_(turned.clamp(0.2, 3))
"""
)


@pytest.fixture
def examples(load_own_strategies):
    load_own_strategies(EXAMPLES)
    assert list(own.list_own_strategies()) == ["last_tokens", "wave"]


def test_signatures_of_user_strategies_are_parsed_back(examples):
    assert signature(parse("last_tokens")) == "last_tokens(n=3)"
    assert signature(parse("dry + wave(kind=down)")).endswith(" + wave(kind=down)")
    assert parse(signature(parse("last_tokens(n=7)"))) == parse("last_tokens(n=7)")
    with expect_refusal("has no parameter 'm'"):
        parse("last_tokens(m=7)")
    with expect_refusal("kind = 'sideways' is unknown: choose from: up, down"):
        parse("wave(kind=sideways)")
    with expect_refusal("did you mean 'wave'"):
        parse("wawe")


def test_child_processes_load_the_users_strategies(examples, tmp_path, monkeypatch):
    own._classes.clear()
    own._loaded_paths.clear()
    assert parse("wave").kind == "up"  # of the variable, as a process that was started finds it
    monkeypatch.delenv(own.VARIABLE)
    own._classes.clear()
    own._loaded_paths.clear()
    with expect_refusal(r"add --code FILE\.py"):
        parse("wave")


def test_source_hash_covers_all_user_defined_steps(examples, load_own_strategies):
    first = own.hash_own_strategy_source(parse("wave"))
    assert own.hash_own_strategy_source(parse("dry + wave(kind=down)")) == first
    assert own.hash_own_strategy_source(parse("wave + last_tokens")) == f"{first}+{first}"
    assert own.hash_own_strategy_source(parse("dry + top_p")) is None
    with expect_refusal(r"'last_tokens' is a strategy of .*mine\.py; rename the class LastTokens"):
        load_own_strategies(EXAMPLES + "# other\n", "other.py")


BAD_FILES = {
    "x = 1\n": "the file has no class that is derived from Sampler or Penalty",
    "def (\n": "SyntaxError: invalid syntax (mine.py, line 1)",
    "import nowhere_at_all\n": "line 1: ModuleNotFoundError",
    "raise SystemExit(0)\n": "line 1: SystemExit",
    HEAD + "class A(Sampler):\n    pass\n" + IDENTITY: "A is not a frozen dataclass",
    HEAD + CLASS.format(name="A", body=PLAIN): "no function is registered for A",
    HEAD
    + CLASS.format(name="A", body="    a: 'Share' = 1\n")
    + IDENTITY: "NameError: name 'Share' is not defined; correct the file",
    HEAD + CLASS.format(name="TopK", body=PLAIN) + IDENTITY.replace("(A)", "(TopK)"): (
        "'top_k' is a strategy of guard-eval; rename the class TopK"
    ),
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_broken_strategy_files_are_refused_with_a_remedy(load_own_strategies, text):
    with pytest.raises(StudyError) as error:
        load_own_strategies(text)
    assert "mine.py" in str(error.value)
    assert BAD_FILES[text] in str(error.value)
    assert own.list_own_strategies() == {}


BAD_FUNCTIONS = {
    "return logits[:, :2]": "returned a tensor (1, 2) of",
    "return None": "returned NoneType",
    "return logits * torch.nan": "masked every token, or returned NaN",
    "return logits - torch.inf": "masked every token, or returned NaN",
    "return logits + torch.inf": "returned NaN or +inf",
    "return 1 / 0": "ZeroDivisionError: division by zero",
    "return context.attention": "AttributeError",
    "return logits.long()": "returned a tensor (1, 9) of int64",
    "raise SystemExit": "failed: SystemExit",
}


@pytest.mark.parametrize("body", BAD_FUNCTIONS)
def test_error_in_a_users_function_names_the_file(load_own_strategies, body):
    function = IDENTITY.replace("return logits", body)
    load_own_strategies(HEAD + CLASS.format(name="A", body=PLAIN) + function)
    says = re.escape(BAD_FUNCTIONS[body])
    with expect_refusal(rf"mine\.py: the function of A .*{says}"):
        Follower("a", torch.tensor([1]))(torch.zeros(1, 9))


@pytest.mark.parametrize("base", ["Sampler", "Penalty"])
def test_users_masks_are_checked_at_every_step(load_own_strategies, base):
    late = "logits[1] = -torch.inf if context.step else logits[1]\n    return logits"
    text = HEAD + CLASS.format(name="A", body=PLAIN) + IDENTITY.replace("return logits", late)
    load_own_strategies(text.replace("Sampler", base))
    follower = Follower("a", torch.tensor([1, 2]))
    follower(torch.zeros(2, 9))
    with expect_refusal(r"mine\.py: the function of A masked every token"):
        follower(torch.zeros(2, 9))


@pytest.mark.parametrize(
    ("lines", "value", "says"),
    [
        ("name: str = 'x'", "name='../x'", "should match pattern"),
        ("a: float = 1", "a=1e999", "a = inf must be a finite number"),
        ("a: int = 1", "a=True", "a = True must be a whole number"),
        (
            "a: int = 1\n    def __post_init__(self): raise ValueError('a is odd')",
            "a=3",
            "'a(a=3)': a is odd",
        ),
    ],
)
def test_user_strategy_refuses_bad_parameters(load_own_strategies, lines, value, says):
    load_own_strategies(HEAD + CLASS.format(name="A", body=f"    {lines}\n") + IDENTITY)
    with expect_refusal(re.escape(says)):
        parse(f"a({value})")


@pytest.mark.parametrize("numbers", ["5", "['x']"])
def test_initial_state_must_be_a_list_of_numbers(load_own_strategies, numbers):
    state = f"@initial_state.register(A)\ndef _(strategy):\n    return {numbers}\n"
    load_own_strategies(HEAD + CLASS.format(name="A", body=PLAIN) + IDENTITY + state)
    with expect_refusal(r"mine\.py: the function of A failed: (TypeError|ValueError)"):
        Follower("a", torch.tensor([1]))


@dataclass(frozen=True, kw_only=True)
class InAProgram(Penalty):
    pass


@apply_step.register
def without_the_best(strategy: InAProgram, logits: torch.Tensor, context: object) -> torch.Tensor:
    logits -= 1e9 * torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[1])  # in place
    return logits


def test_strategy_defined_in_a_program_works():
    logits = torch.tensor([[1.0, 5.0, 4.0]])
    before = logits.clone()
    chain = Chain(steps=(InAProgram(), InAProgram()))
    assert Follower(chain, torch.tensor([1]))(logits).item() == 0  # neither the best nor the second
    assert torch.equal(logits, before)
    assert len(own.hash_own_strategy_source(InAProgram())) == 16


def test_trace_of_a_user_strategy_numbers_the_state_values(examples):
    follower = Follower("wave", torch.tensor([1, 2]))
    for step in torch.randn(3, 2, 9, generator=torch.Generator().manual_seed(1)):
        follower(step)
    assert follower.trace["Wave.1"][:, 0].tolist() == [1, 1]
    assert follower.trace["Wave.2"][:, 0].tolist() == [0.5, 0.5]
