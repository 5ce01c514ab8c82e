"""`guard-eval try`: one text on the terminal, and its page."""

import io
import re

import pytest

pytestmark = pytest.mark.slow


def test_the_text_is_printed_and_the_page_has_every_number(run, tmp_path):
    page = tmp_path / "made" / "text.html"
    ran = run("try", "bundled", "Once upon <b>a</b> time", "--max-new-tokens", "9", "--html", str(page))
    assert ran.code == 0, ran.err
    text, _, rest = ran.out.partition("\n\nguard: 9 tokens")
    assert rest.splitlines()[0].endswith("; the length limit ended it")
    assert "colour:" not in rest  # there are none
    html = page.read_text(encoding="utf-8")
    tokens = re.findall(r'<span class="s\d" title="([^"]*)">([^<]*)</span>', html)
    assert len(tokens) == 9
    assert "".join(shown for _, shown in tokens).replace("&#x27;", "'").replace("&quot;", '"') == text
    assert all(
        name in numbers for numbers, _ in tokens for name in ("entropy", "H_glob", "k ", "alpha", "q ")
    )
    assert "Once upon &lt;b&gt;a&lt;/b&gt; time" in html
    assert html.count("<svg") == 7


def test_colours_are_explained_where_they_are_shown(run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    command = ("try", "bundled", "Once upon a time", "--max-new-tokens", "9")
    ran = run(*command)
    assert "\x1b[30;" in ran.out
    assert "colour: entropy, from" in ran.out
    monkeypatch.setenv("NO_COLOR", "1")
    ran = run(*command, "--stop", "e")
    assert "guard: 1 token in" in ran.out
    assert "; a stop string ended it" in ran.out
    assert "colour:" not in ran.out


def test_what_is_piped_has_no_control_characters(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("The dog\n"))
    ran = run("try", "bundled", "-", "--max-new-tokens", "5", "--strategy", "top_p(p=0.9)")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--colour", "k", "--strategy", "greedy"],
            "this strategy has no such number; choose from: entropy, prob",
        ),
        (["--amateur", ""], "the model '' has no name"),
        (["--strategy", "gard"], "did you mean 'guard'?"),
        (["--strategy", "contrastive_decoding"], "needs a second, smaller model"),
        (["--max-new-tokens", "1000000"], "tokens"),
    ],
)
def test_wrong_options_are_named(run, options, message):
    assert message in " ".join(run("try", "bundled", "The dog", *options).refused().split())
