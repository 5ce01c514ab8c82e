"""A study by its commands: what is repeated, torn or drifts from study.toml."""

import sqlite3
from pathlib import Path

import pytest

from guard_eval.cli.commands import COMMANDS

pytestmark = pytest.mark.slow


def test_a_judge_is_previewed_without_key_network_or_trace(run, paired):
    before = dump(paired)
    dry = run("judge", "small", "--dry-run", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert dry.code == 0, dry
    assert "to ask: 6 requests" in dry.out
    assert "You are a language evaluation specialist" in dry.out
    assert dump(paired) == before
    assert "OPENAI_API_KEY" in run("judge", "small", "--yes").refused()


def dump(folder):
    connection = sqlite3.connect(folder / "study.db")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_every_command_is_on_its_page():
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert {name.split()[0] for name in COMMANDS if f"`{name.split()[0]}`" not in page} == set()


def test_the_settings_may_not_drift_from_the_pairs(run, paired):
    text = (paired / "study.toml").read_text()
    (paired / "study.toml").write_text(text.replace("seed = 5", "seed = 6"))
    assert "run: guard-eval generate" in run("pair", "small").refused()
    assert run("generate", "small").code == 0
    assert "guard-eval pair small --redraw" in run("pair", "small").refused()
