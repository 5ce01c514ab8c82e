"""What the terminal shows: tables that lose nothing however narrow, and text that steers nothing."""

import codecs
import json
import re
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from guard_eval.cli import printer as printer_module
from guard_eval.cli.printer import LOG_SECONDS, LoggedProgress, Printer, replace_unprintable_by_ascii
from guard_eval.errors import MissingExtraError
from guard_eval.reporting.tables import Table
from guard_eval.results import Result


def show_table(heads, rows):
    Printer().show_result(
        Result(tables=(Table(columns=tuple(heads), rows=tuple(map(tuple, rows)), caption=""),))
    )


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_tables_wrap_between_words_at_any_width(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    heads = ["rater", "kind", "handed out", "rated", "gold failed", "state", "came from"]
    row = ["Bartholomew-the-Third", "person", "12", "11", "1/2", "one side", "prolific 5f3c1a2b9d8e"]
    show_table(heads, [row, ["a" * 28, "b" * 7 + " " + "b" * 9, *row[2:]]])
    printed = capsys.readouterr().out
    words = {word for cell in (*heads, *row) for word in cell.split()}
    assert words <= set(re.sub(r":(?= )|[─│]", "", printed).split())
    assert "a" * 28 in printed
    assert max(map(len, printed.splitlines())) <= width


def test_lines_break_between_words_but_not_in_commands(capsys, monkeypatch):
    terminal = Console(width=24, force_terminal=True, soft_wrap=True)
    monkeypatch.setattr(printer_module, "Console", lambda **_: terminal)
    line = "  Prompts are drawn from folder/of/a/rather/long/name/prompts.jsonl, the rest stays."
    Printer().show_result(Result(lines=(line,), next=("guard-eval generate a-study-of-a-name --dry-run",)))
    *lines, _, _ = capsys.readouterr().out.rstrip("\n").split("\n")
    assert " ".join(text.strip() for text in lines) == line.strip()
    assert all(len(text) <= 24 or " " not in text.strip() for text in lines)
    assert all(text.startswith("  ") for text in lines)


def test_output_to_a_file_is_not_wrapped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    line, following = "a line of many words, some of them long", "guard-eval generate a-study --dry-run"
    Printer().show_result(Result(lines=(line,), next=(following,)))
    assert capsys.readouterr().out == f"{line}\n\nNext: {following}\n"


def test_a_log_has_a_line_a_minute_with_rate_and_time_left(capsys):
    now = [1000.0]
    with LoggedProgress(console=Console(stderr=True), get_time=lambda: now[0]) as bar:
        task = bar.add_task("greedy", total=100, note="")
        for _ in range(12):  # a text each ten seconds, for two minutes
            now[0] += LOG_SECONDS / 6
            bar.advance(task)
        lines = [line for line in capsys.readouterr().err.splitlines() if "greedy: " in line]
    assert [line.split(",")[0] for line in lines] == ["greedy: 6 of 100", "greedy: 12 of 100"]
    assert "6.0 a minute" in lines[1]


STEERING = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe\u2066 \u200eodd\x9b\ud83d \u2028line"


@pytest.mark.parametrize("width", ["20", "200"])
def test_control_characters_are_escaped_on_terminals(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    table = Table(columns=(STEERING, "text"), rows=((STEERING, STEERING),), caption=STEERING, note=STEERING)
    Printer().show_result(Result(lines=(STEERING,), warnings=(STEERING,), tables=(table,)))
    Printer().print_error(STEERING)
    Printer().show_notice(STEERING)
    for text in capsys.readouterr():
        assert all(character.isprintable() or character == "\n" for character in text)
        assert r"\x1b[2J" in text
        assert r"\u202egnp" in text


def test_scripts_emoji_and_spaces_are_shown_as_they_are(capsys):
    text = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f467 57.9\u00a0% \u00e9"
    Printer().show_result(Result(lines=(text,)))
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_ascii_stream_gets_ascii_replacements(encoding):
    codecs.register_error("plain", replace_unprintable_by_ascii)
    text = "3\u00a0% \u2026 \u03ba \u2212 0.5 \u00d7 \u2192 \u2713 \u0416 \ud83d"
    printed = text.encode(encoding, "plain").decode(encoding)
    assert printed.replace("\u00a0", " ").replace("\u2026", "...").replace("\u00d7", "x") == (
        r"3 % ... kappa - 0.5 x -> + \u0416 \ud83d"
    )


def test_pages_in_messages_have_their_path(capsys, monkeypatch, tmp_path):
    message = "read docs/formats.md; docs/none.md is no page, and my/docs/formats.md another one"
    monkeypatch.chdir(tmp_path)
    Printer().print_error(message)
    root = Path(printer_module.__file__).parents[2]
    assert capsys.readouterr().err == message.replace("read ", f"read {root}/") + "\n"
    monkeypatch.chdir(root)
    Printer().warn(message)
    assert capsys.readouterr().err == f"warning: {message}\n"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (None, "'guard-eval[judge]'"),
        ({"url": "file:///tmp/g.whl", "archive_info": {}}, "'guard-eval[judge] @ file:///tmp/g.whl'"),
        ({"url": "file:///my%20src", "dir_info": {"editable": True}}, "-e '/my src[judge]'"),
    ],
)
def test_a_missing_extra_is_named_as_pip_finds_it(monkeypatch, source, name):
    text = None if source is None else json.dumps(source)
    monkeypatch.setattr(metadata, "distributions", lambda name: [SimpleNamespace(read_text=lambda _: text)])
    message = "this command needs the package 'openai', which is not installed; run: pip install " + name
    assert str(MissingExtraError("judge", "openai")) == message
