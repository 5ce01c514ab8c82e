"""`try`: one text, from Python and on the terminal."""

import io
import json

import pytest

from guard_eval.generation.library import show_text

pytestmark = pytest.mark.slow


def test_try_returns_numbers_of_each_token(capsys):
    text = show_text("bundled", "Once upon <b>a</b> time", max_new_tokens=9)
    assert (text.strategy, text.finish, len(text.tokens)) == ("guard", "length", 9)
    assert "".join(token["text"] for token in text.tokens) == text.text
    assert all(
        {"entropy", "probability", "H_glob", "k", "alpha", "q"} <= token.keys() for token in text.tokens
    )
    assert capsys.readouterr() == ("", "")


def test_try_colours_tokens_on_terminals_alone(run, monkeypatch):
    command = ("try", "bundled", "Once upon a time", "--max-new-tokens", "9")
    plain = run(*command)
    assert "\x1b" not in plain.out
    assert "\n\nguard: 9 tokens in " in plain.out
    assert "\nentropy: from " in plain.out
    data = json.loads(run(*command, "--json").out)
    assert plain.out.startswith(data["text"])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[30;" in run(*command).out


def test_try_reads_the_prompt_from_standard_input(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("The dog\n"))
    ran = run("try", "bundled", "--max-new-tokens", "5", "--strategy", "top_p(p=0.9)")
    assert ran.code == 0, ran.err
