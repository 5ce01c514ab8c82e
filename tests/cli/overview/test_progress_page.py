"""The owner's view as text, page and JSON: complete, and what others wrote stays text."""

import json
from dataclasses import replace

from html_page import Page
from ratings_by_hand import note, pair, person, pressed, snapshot

from guard_eval.cli.overview.display import (
    as_html,
    as_json,
    criteria_table,
    headline,
    looks,
    raters_table,
    warnings,
)
from guard_eval.cli.overview.overview import view

HOSTILE = "<script>alert(1)</script><img src=https://example.org/x> \u202eabc\x00 \ud83d {{ 7*7 }}"


def hostile():
    rows = [
        row
        for number in range(11)
        for row in pressed(number, f"p{number}", HOSTILE, fluency="A", seconds=3.0)
    ]
    notes = [note(HOSTILE, "comment", HOSTILE, 1)]
    pairs = [replace(pair(number), prompt_id=HOSTILE, dataset=HOSTILE) for number in range(12)]
    return view(snapshot(rows, pairs=pairs, raters=[person(HOSTILE, rated=11)], notes=notes), slots=1)


def test_what_raters_write_is_text_on_the_page():
    page = as_html(hostile(), title=HOSTILE, at="now")
    assert "<script" not in page
    assert "<img" not in page
    assert "{{ 7*7 }}" in page
    assert "\x00" not in page
    page.encode()
    found = Page(page).tags
    # Nothing runs and nothing is fetched, and rows are made by us alone.
    assert not {name for name, _ in found} & {"script", "img", "iframe", "link", "a", "form"}
    assert not {name for _, held in found for name in held} & {"src", "href", "style", "onerror", "onclick"}
    assert "default-src 'none'" in page
    assert 'http-equiv="refresh"' not in page
    assert '<meta http-equiv="refresh" content="7">' in as_html(hostile(), title="t", at="now", refresh=7)


def test_json_holds_every_number():
    read = json.loads(as_json(hostile(), title="t", at="now"))
    assert (read["study"], read["counted"], read["wanted"]) == ("t", 11, 12)
    assert read["raters"][0]["flags"] == ["fast", "same answer", "one side"] or read["raters"][0]["run"]
    assert read["remarks"][0]["text"] == HOSTILE
    assert read["criteria"][0]["agreement"]["note"] == "no item was rated twice"


def test_the_headline_says_what_is_left():
    text = headline(hostile())
    assert text == (
        "11 of 12 ratings (92 %): 12 pairs, 1 person each. 1 to go: about 3 s of rating in all, at 3 s "
        "a pair."
    )
    assert (
        headline(view(snapshot([], pairs=[], raters=[]), slots=4))
        == "0 of 0 ratings: 0 pairs, 4 people each."
    )


def test_tables_name_what_is_worth_a_look():
    seen = hostile()
    (line,) = looks(seen)
    assert "one side" in line
    for narrow in (False, True):  # a table refuses a row that lacks a column
        assert raters_table(seen, narrow=narrow).rows
        assert criteria_table(seen, narrow=narrow).rows
    assert warnings(seen) == ()
    assert "study.toml" in warnings(replace(seen, changed_settings=True))[0]


def test_an_excluded_rater_is_no_longer_worth_a_look():
    seen = hostile()
    excluded = replace(seen, raters=tuple(replace(line, state="excluded") for line in seen.raters))
    assert looks(seen)
    assert looks(excluded) == ()
