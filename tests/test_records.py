"""Ids: the same thing has the same id, anything that changes the text changes it."""

import hashlib
from dataclasses import replace

import pytest
from factories import PROMPT
from factories import RECIPE as ANY

from guard_eval.records import Pair, content_id

RECIPE = replace(ANY, model="org/model", revision="abc")


def test_content_id_is_the_start_of_a_sha256():
    assert content_id("a", 1) == hashlib.sha256(b'["a",1]').hexdigest()[:16]


def test_content_id_takes_lone_surrogates():
    assert content_id("\ud800") != content_id("\udfff")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "org/other"),
        ("revision", "abd"),
        ("strategy", "guard(window=4)"),
        ("seed", 2),
        ("max_new_tokens", 9),
        ("max_prompt_tokens", 9),
        ("dtype", "bfloat16"),
    ],
)
def test_every_part_of_the_recipe_changes_the_id(field, value):
    assert replace(RECIPE, **{field: value}).continuation_id(PROMPT) != RECIPE.continuation_id(PROMPT)


def test_ids_are_what_they_were_before_amateurs_and_chats():
    written_out = b'["p1","Once","org/model","abc","guard",1,8,8,"float32"]'
    assert RECIPE.continuation_id(PROMPT) == hashlib.sha256(written_out).hexdigest()[:16]
    assert ANY.continuation_id(PROMPT) == "eb6cba6623445652"  # printf … | sha256sum


def test_amateur_and_chat_by_hand():
    both = replace(RECIPE, amateur="org/small", amateur_revision="def", chat=True)
    rare = b'{"amateur":["org/small","def"],"chat":true}'
    written_out = b'["p1","Once","org/model","abc","guard",1,8,8,"float32",%s]' % rare
    assert both.continuation_id(PROMPT) == hashlib.sha256(written_out).hexdigest()[:16]
    folder = replace(both, amateur="./small", amateur_revision="sha256:00")
    assert folder.continuation_id(PROMPT) == replace(folder, amateur="../small").continuation_id(PROMPT)
    assert folder.continuation_id(PROMPT) != both.continuation_id(PROMPT)
    assert replace(both, chat=False).continuation_id(PROMPT) != both.continuation_id(PROMPT)


def test_runs_and_stop_strings_by_hand():
    """The first run of a recipe without stop strings has the id that it had before there were such things."""
    stopped = replace(RECIPE, stop=("\n\n", "é"))
    parts = '["p1","Once","org/model","abc","guard",1,8,8,"float32",%s]'
    for run, rare in ((1, '{"stop":["\\n\\n","é"]}'), (2, '{"run":2,"stop":["\\n\\n","é"]}')):
        assert (
            stopped.continuation_id(PROMPT, run) == hashlib.sha256((parts % rare).encode()).hexdigest()[:16]
        )
    second = (parts % '{"run":2}').encode()
    assert RECIPE.continuation_id(PROMPT, 2) == hashlib.sha256(second).hexdigest()[:16]
    assert RECIPE.continuation_id(PROMPT, 1) == RECIPE.continuation_id(PROMPT)


def test_the_prompts_text_changes_the_id_and_its_dataset_does_not():
    assert RECIPE.continuation_id(replace(PROMPT, text="Twice")) != RECIPE.continuation_id(PROMPT)
    assert RECIPE.continuation_id(replace(PROMPT, dataset="e")) == RECIPE.continuation_id(PROMPT)


def test_a_folder_is_known_by_its_content_not_by_its_name():
    here = replace(RECIPE, model="models/a", revision="sha256:00")
    assert here.continuation_id(PROMPT) == replace(here, model="/elsewhere/a").continuation_id(PROMPT)


def test_a_pair_under_other_names_is_another_pair():
    assert Pair.make_id("x", "y", "1", "2") != Pair.make_id("y", "x", "1", "2")
