"""What in the texts themselves tells raters which system wrote them."""

import pytest

from guard_eval.texts.systems.cues import describe_revealing_cues, describe_unfinished_texts

PLAIN = [f"{word} is a word." for word in ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")]
MARKED = [f"## {text}\n* first\n* second\n\nThat is **all**." for text in PLAIN]
OPENED = [f"Certainly! Here is {text}" if n < 3 else text for n, text in enumerate(PLAIN)]


def cues(x, y, names=("GPT", "y")):
    texts = dict(zip(names, (x, y), strict=True))
    return list(describe_revealing_cues(texts, [names], own_names=names))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([*PLAIN[:-1], "As GPT, I say so."], "1 of 8 texts by GPT hold its name"),
        ([*PLAIN[:-1], "这是由GPT写的。"], "1 of 8 texts by GPT hold its name"),
        (OPENED, "3 of 8 texts by GPT begin with 'Certainly! H', and 0 of 8 by y"),
        (MARKED, "8 of 8 texts by GPT have Markdown, and 0 of 8 by y"),
    ],
)
def test_cue_that_reveals_one_system_is_reported(texts, words):
    assert any(words in sentence for sentence in cues(texts, PLAIN))
    assert any(words in sentence for sentence in cues(PLAIN, texts, ("y", "GPT")))


def test_shared_features_are_not_cues():
    assert cues(PLAIN, PLAIN[::-1]) == []
    assert cues(OPENED, OPENED) == []
    assert cues(MARKED, MARKED) == []
    assert cues([*PLAIN, "Egypt is far."], PLAIN) == []  # the name is no word of its own
    both = ["As GPT, I say so."]
    assert cues([*PLAIN, *both], [*PLAIN, *both]) == []


def test_a_whole_short_text_is_an_opening_of_equal_texts():
    """Texts that begin with the same word and go on are different."""
    short = ["Yes"] * 4 + PLAIN
    assert any("4 of 12 texts by GPT begin with 'Yes'" in sentence for sentence in cues(short, PLAIN))
    longer = [f"Yesterday it was {text}" for text in PLAIN]
    assert any("4 of 12 texts by GPT begin with 'Yes', and 0 of 8" in cue for cue in cues(short, longer))
    assert cues(short, [*PLAIN, "Yes"]) == []


def test_rare_common_opening_is_no_cue():
    """A fifth of the texts is not more than a fifth."""
    texts = [f"It is so that {text}" if n < 2 else text for n, text in enumerate([*PLAIN, "Nine.", "Ten."])]
    assert cues(texts, [*PLAIN, "Nine.", "Ten."]) == []


def test_different_shares_of_unfinished_texts_are_reported():
    cut = ["It was", "He said,", "Yes."]
    done = ["No.", "“Oh!”", "Is it?", "(so it is.)", "```\ncode\n```"]
    assert (
        describe_unfinished_texts({"A": cut, "B": done})
        == "67 % of A's texts end in mid-sentence, none of B's"
    )
    assert describe_unfinished_texts({"A": cut, "B": cut}) is None
    assert describe_unfinished_texts({"A": cut}) is None
    assert describe_unfinished_texts({"A": [""], "B": done}) is None
