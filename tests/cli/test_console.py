"""What the terminal shows when it is narrow."""

import codecs
import re

import pytest
from rich.console import Console

from guard_eval.cli import console
from guard_eval.cli.console import say, say_next, say_table, say_warnings
from guard_eval.cli.printer import encode_plainly


def test_a_narrow_table_folds_names_and_keeps_numbers(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    name = "contrastive_decoding(alpha=0.1, amateur_tau=0.5, beams=5, amateur_prompt=last)"
    numbers = ["96.96", "-1.40", "201.3", "12418"]
    say_table(["strategy", "div. %", "coh.", "tokens", "tok/s"], [[name, *numbers], ["greedy", *numbers]])
    shown = capsys.readouterr().out
    assert all(shown.count(number) == 2 for number in numbers)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 60


def test_no_word_of_a_table_is_broken_however_narrow(capsys, monkeypatch):
    heads = ["rater", "kind", "handed out", "state", "came from"]
    row = ["Bartholomew-the-Third", "person", "12", "failed the check, one side", "prolific 5f3c1a2b9d8e"]
    for width in (30, 40, 60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        say_table(heads, [row])
        shown = capsys.readouterr().out
        assert {word for cell in (*heads, *row) for word in cell.split()} <= set(
            re.sub(r":(?= )|[─│]", "", shown).split()
        )


def test_a_table_of_80_columns_breaks_no_word_and_loses_no_letter(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    heads = ["rater", "kind", "handed out", "rated", "time", "gold failed", "state", "came from"]
    row = ["P-1", "person", "12", "11", "12 min", "1/2", "excluded, fast, failed the check"]
    say_table(heads, [[*row, "prolific 5f0c0ffee1234567890abc02"]] * 2)
    shown = capsys.readouterr().out
    for word in " ".join([*heads, *row, "prolific 5f0c0ffee1234567890abc02"]).split():
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_a_table_of_any_width_has_every_letter(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    say_table(["one", "two", "three"], [["a" * 30, "b" * 7 + " " + "b" * 9, "3"], ["a", "", "12"]])
    shown = capsys.readouterr().out
    assert [shown.count(letter) for letter in "ab"] == [31, 16]
    assert max(map(len, shown.splitlines())) <= width


def test_a_terminal_breaks_lines_between_words_and_leaves_commands_whole(capsys, monkeypatch):
    monkeypatch.setattr(console, "console", lambda: Console(width=24, force_terminal=True, soft_wrap=True))
    line = "  Prompts are drawn from folder/of/a/rather/long/name/prompts.jsonl, the rest stays."
    say(line)
    shown = capsys.readouterr().out.splitlines()
    assert " ".join(part.strip() for part in shown) == line.strip()
    assert all(len(part) <= 24 or " " not in part.strip() for part in shown)
    assert all(part.startswith("  ") for part in shown)
    say_next("guard-eval generate a-study-of-a-name --dry-run")
    assert "guard-eval generate a-study-of-a-name --dry-run" in capsys.readouterr().out


def test_a_file_gets_whole_lines(capsys, monkeypatch):
    monkeypatch.setattr(console, "console", lambda: Console(width=24, soft_wrap=True))
    say("a line of many words, some of them long")
    assert re.fullmatch(r"a line of many words, some of them long\n", capsys.readouterr().out)


def test_a_log_has_a_line_a_minute_with_rate_and_time_left(capsys, monkeypatch):
    now = [1000.0]
    with console.speaking(), console.progress("texts", window=86400) as bar:
        monkeypatch.setattr(bar, "get_time", lambda: now[0])
        task = bar.add_task("greedy", total=100, note="")
        for _ in range(12):  # a text each ten seconds, for two minutes
            now[0] += 10
            bar.advance(task)
        lines = [line for line in capsys.readouterr().out.splitlines() if "greedy: " in line]
    assert [line.split(",")[0] for line in lines] == ["greedy: 6 of 100", "greedy: 12 of 100"]
    assert lines[1].endswith("6.0 a minute, 0:14:40 left")


STEERING = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe\u2066 \u200eodd\x9b\ud83d \u2028line"


@pytest.mark.parametrize("width", ["20", "200"])
def test_nothing_from_outside_steers_the_terminal_or_reverses_its_letters(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    with console.speaking():
        say(f"Ann: {STEERING}")
        say_warnings([STEERING])
        say_table([STEERING, "text"], [[STEERING, STEERING]])
    shown, warned = capsys.readouterr()
    for text in (shown, warned):
        assert all(one.isprintable() or one == "\n" for one in text)
        assert r"\x1b[2J" in text
        assert r"\u202egnp" in text


def test_scripts_emoji_and_spaces_are_shown_as_they_are(capsys):
    text = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f467 57.9\u00a0% \u00e9"
    with console.speaking():
        say(text)
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_stream_of_few_characters_gets_plain_ones(encoding):
    codecs.register_error("plain", encode_plainly)
    text = "3\u00a0% \u2026 \u03ba \u2212 0.5 \u00d7 \u2192 \u2713 \u0416 \ud83d"
    shown = text.encode(encoding, "plain").decode(encoding)
    assert shown.replace("\u00a0", " ").replace("\u2026", "...").replace("\u00d7", "x") == (
        r"3 % ... kappa - 0.5 x -> + \u0416 \ud83d"
    )
