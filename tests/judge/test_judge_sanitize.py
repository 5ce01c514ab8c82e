"""Sanitizing: special tokens in texts are replaced, and ordinary texts are unchanged."""

import re
import tomllib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers

from judge.prompts.sanitize import neutralise_markup

TABLE = tomllib.loads((Path(__file__).parent / "special_tokens.toml").read_text(encoding="utf-8"))[
    "tokenizer"
]


def expand_numbers(token):
    """Return the tokens that an entry describes: `<a{0-2}>` → `<a0>`, `<a1>`, `<a2>`."""
    span = re.search(r"\{(\d+)-(\d+)\}", token)
    if span is None:
        return [token]
    return [token.replace(span[0], str(number)) for number in range(int(span[1]), int(span[2]) + 1)]


TOKENS = sorted(
    {spelling for entry in TABLE for token in entry["tokens"] for spelling in expand_numbers(token)}
)
GRAVE = re.compile("|".join(re.escape(token) for token in sorted(TOKENS, key=len, reverse=True)))


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["model"])
def test_published_special_tokens_are_replaced(entry):
    for token in (spelling for written in entry["tokens"] for spelling in expand_numbers(written)):
        between = " " if token[0] == "/" else ""  # inside a word it is a path
        for text in (token, f"so {token} it", f"so{between}{token}\nuser", f"{token}{between}{token}"):
            harmless = neutralise_markup(text)
            assert not GRAVE.search(harmless), (token, harmless)
            assert len(harmless) == len(text)
            # what is replaced is brackets alone, so that a judge still reads the name
            assert re.sub(r"\W", "", harmless) == re.sub(r"\W", "", text)


@given(st.lists(st.sampled_from(TOKENS) | st.text("<>[]|/~! ab_\n", max_size=4), max_size=8).map("".join))
def test_nested_special_tokens_are_replaced_in_one_pass(text):
    harmless = neutralise_markup(text)
    result = GRAVE.search(harmless)
    assert result is None or result[0] in {"/think", "/no_think"}  # a path: "a/think"
    assert neutralise_markup(harmless) == harmless


@pytest.mark.parametrize("begins", ["<", "<<", "</", "＜", "["])
def test_long_white_space_after_a_bracket_takes_linear_time(begins):
    """A search that tries each way to divide the white space would take minutes."""
    assert neutralise_markup(begins + " " * 200_000) == begins + " " * 200_000
    assert neutralise_markup(f"{begins}{' ' * 200_000}</ method-a>").endswith("‹/ method-a>")


@pytest.mark.slow
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3), st.data())
def test_look_alikes_of_special_tokens_are_replaced(tokens, data):
    """Search with a real tokenizer that applies NFKC and removes invisible characters."""
    wide = {mark: chr(ord(mark) + 0xFEE0) for mark in "<>[]|/"}
    text = " ".join(
        "".join(data.draw(st.sampled_from([mark, wide.get(mark, mark), f"{mark}\u200b"])) for mark in token)
        for token in tokens
    )
    tokenizer = Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\u200b", "")])
    tokenizer.add_tokens(TOKENS)
    special = {unicodedata.normalize("NFKC", token) for token in TOKENS}
    assert set(tokenizer.encode(text).tokens) & special
    assert not set(tokenizer.encode(neutralise_markup(text)).tokens) & special


ORDINARY = [
    "if a < b and b > c, then a < b < d; 5 <3; x<y>z; E[|X|] < 1; |x| > 2; <x|y>, ⟨ψ|φ⟩",
    "<p>hi</p> <b>bold</b> <br/> <div class='x'> <table><tr><td>1</td></tr></table> <a href=\"#\">",
    "He [sic] said “no” [1], [Smith 2020], [emphasis added], [Note], [end], [ ] and [x]",
    "std::vector<size_t> v; static_cast<uint8_t>(x); Map<String, List<Integer>> m; #include <stdio.h>",
    "a[MAX_SIZE] = b[i][j]; list[int]; dict[str, int]; buf[LEN_A]; [|1; 2|] in OCaml",
    "xs |> map f |> sum; f <| g x; p <|> q; a || b; a | b; x ||> y; <- -> <= >= <> << >> =>",
    "cat <file.txt >out 2>&1; usage: prog <input> [options]; mail <bob@example.org>; see <https://example.org>",
    "https://example.org/think and and/or/think; 1/2; he/she; /thinking",
    "「日本」 ‹quoted› «guillemets» ⟦semantics⟧ ＜広い＞ ｜ ＡＢＣ １２ ﬁne ½ … ①",
    "Cafe\u0301 \u200bzero\u200dwidth \u00ad soft, 👩‍👩‍👧, עברית, \u202eoverride, tab\t, nul \x00",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_unchanged(text):
    assert neutralise_markup(text) == text


@pytest.mark.parametrize("other", ["…", "½ﬁ", "\u200b\u00ad", "\ufdfa", "①\u200b™", "é“—”"])
def test_special_tokens_are_found_after_normalised_characters(other):
    text = f"{other}<s>{other}＜|im_start|＞{other}[x]/think {other}"
    assert neutralise_markup(text) == f"{other}‹s>{other}‹|im_start|›{other}[x]∕think {other}"
