"""The examples of docs/own_strategy.md, as they stand on the page: in a study, by the command line."""

import json
import re

import pytest
import torch
from command_line import make_command, run_here, run_process
from own_strategies import forget_own_strategies
from stepping import Follower, logits_after, tokens_kept

from guard_eval.generation.strategies import parse
from guard_eval.study import Study

BASE = """
name = "s"
seed = 11
[model]
name = "bundled"
[generation]
max_new_tokens = 12
max_prompt_tokens = 16
{strategies}
[metrics]
compute = ["diversity", "length"]
[pairs]
compare = [["greedy", "top_a(a=0.1)"]]
"""


@pytest.fixture
def folder(tmp_path, blocks):
    folder = tmp_path / "my-study"
    folder.mkdir()
    (folder / "study.toml").write_text(
        BASE.format(strategies=blocks("own_strategy.md", "toml")[0]), encoding="utf-8"
    )
    lines = [json.dumps({"id": f"p{n}", "prompt": text}) for n, text in enumerate(["One day", "The dog"])]
    (folder / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "my_strategies.py").write_text(
        "\n\n".join(blocks("own_strategy.md", "python")), encoding="utf-8"
    )
    return folder


@pytest.fixture
def run_here_anew(folder, monkeypatch, capsys):
    """Run a command in this process, as one that knows no strategies of one's own yet."""

    def run(*arguments):
        with monkeypatch.context() as patch:
            forget_own_strategies(patch)
            return run_here(patch, capsys, folder.parent, *arguments)

    return run


def texts(folder, name):
    """Return the lines of a strategy's files; a changed source has a file of its own."""
    paths = sorted((folder / "continuations").glob(f"*/{name}*.jsonl"))
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def test_first_strategy_has_at_most_ten_lines(blocks):
    first = blocks("own_strategy.md", "python")[0]
    assert len(first[first.index("@dataclass") :].splitlines()) <= 10


@pytest.mark.slow
def test_strategies_of_the_page_write_and_measure_texts(folder, run_here_anew, blocks):
    """Made with the option, not without it; made again when the file has changed; measured with it."""
    [generate, measure] = blocks("own_strategy.md", "sh")[0].splitlines()
    assert generate.split()[0] == measure.split()[0] == "guard-eval"
    done = run_process(make_command(*generate.split()[1:]), folder.parent)
    assert done.code == 0, done
    before = texts(folder, "top_a(a=0.1)")
    chain = texts(folder, "dry(multiplier=0.8, base=1.75, allowed_length=2) + top_a(a=0.2)")
    assert {row["source"] for row in before + chain} == {before[0]["source"]}
    assert "source" not in texts(folder, "greedy")[0]

    refused = run_here_anew("generate", "my-study").refused()
    assert "unknown strategy 'top_a'" in refused
    assert "--code FILE.py" in refused

    done = run_here_anew(*measure.split()[1:])
    assert done.code == 0, done
    assert "top_a(a=0.1)" in done.out

    file = folder.parent / "my_strategies.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    done = run_here_anew(*generate.split()[1:])
    assert done.code == 0, done
    after = [row for row in texts(folder, "top_a(a=0.1)") if row not in before]
    assert len(texts(folder, "top_a(a=0.1)")) == 2 * len(before)  # they stay
    assert {row["id"] for row in after}.isdisjoint(row["id"] for row in before)
    assert {row["text"] for row in after} == {row["text"] for row in before}
    assert len(texts(folder, "greedy")) == 2  # not made again


@pytest.fixture
def examples(load_own_strategies, blocks):
    load_own_strategies("\n\n".join(blocks("own_strategy.md", "python")))


def test_top_a_keeps_tokens_with_p_above_a_times_max_squared(examples):
    p = torch.tensor([[0.6, 0.3, 0.07, 0.03]])  # a (max p)² = .2 · .36 = .072
    assert tokens_kept(logits_after(parse("top_a(a=0.2)"), p.log())) == {0, 1}


def test_budget_strategy_follows_hand_arithmetic(examples):
    """Followed by hand: greedy exactly where the sum of surprises exceeds the steps' budgets."""
    logits = torch.randn(60, 1, 30, generator=torch.Generator().manual_seed(1)) * 2
    follower, spent, forced = Follower(parse("budget(nats=1.2)"), torch.tensor([5])), 0.0, 0
    for row in logits:
        token = follower(row).item()
        if spent > 0:
            forced += 1
            assert token == row.argmax().item()
        spent += -row.double().log_softmax(-1)[0, token].item() - 1.2
        assert follower.state.item() == pytest.approx(spent)
    assert 5 < forced < 55


def test_study_toml_cannot_load_python_files(folder):
    """Nothing that a study says makes its folder's Python files run."""
    (folder / "my_strategies.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    for line in ('strategies = "my_strategies.py"', 'own = "my_strategies:TopA"'):
        text = (folder / "study.toml").read_text(encoding="utf-8").replace("top_a(a=0.1)", "top_k(k=5)")
        text = re.sub(r"^strategies = .*$", 'strategies = ["greedy", "top_k(k=5)"]', text, flags=re.MULTILINE)
        (folder / "study.toml").write_text(f"{line}\n{text}", encoding="utf-8")
        with pytest.raises(Exception, match=r"study\.toml"):
            Study.open(folder)
