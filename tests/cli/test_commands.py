"""The commands by name and as functions: one table, loaded when used."""

import re
import shutil
from pathlib import Path

import pytest

from guard_eval.cli import commands
from guard_eval.cli.console import _shown
from guard_eval.demo.run import simulate
from guard_eval.study.folder import Study

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_the_line_in_the_list_is_the_commands_own(name):
    help_ = commands.load(name).help
    assert " ".join(help_.split("\n\n")[0].split()) == commands.COMMANDS[name]


@pytest.mark.parametrize("name", commands.FUNCTIONS)
def test_functions_are_found_where_the_table_says(name):
    function = getattr(commands, name)
    assert (function.__name__, function.__module__) == (name, commands.FUNCTIONS[name])
    assert name in commands.__all__


def test_another_name_is_none():
    with pytest.raises(AttributeError, match="has no function 'generat'"):
        _ = commands.generat


@pytest.mark.slow
def test_the_pages_example_runs_and_prints_what_it_prints(paired, tmp_path, monkeypatch, capsys):
    shutil.move(paired, tmp_path / "my-study")
    simulate(Study.open(tmp_path / "my-study"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(_shown, "lines", False)
    capsys.readouterr()
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(example, names)
    assert names["pairs"].count == 3
    assert {"diversity", "coherence"} <= {score.metric for score in names["scores"]}
    assert set(names["table"]["criterion"]) == {"coherence", "fluency"}
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "pairs of continuations" in out.replace("\u00a0", " ")
