"""Ids: the same thing has the same id, anything that changes the text changes it."""

import hashlib
from dataclasses import replace

import pytest
from factories import PROMPT
from factories import RECIPE as ANY

from guard_eval.records import Pair, make_content_id

RECIPE = replace(ANY, model="org/model", revision="abc")
AMATEUR = {"amateur": "org/small", "amateur_revision": "def", "chat": True}
STOPPED = {"stop": ("\n\n", "é")}


def test_content_id_is_the_start_of_a_sha256():
    assert make_content_id("a", 1) == hashlib.sha256(b'["a",1]').hexdigest()[:16]
    assert make_content_id("\ud800") != make_content_id("\udfff")


@pytest.mark.parametrize(
    ("changes", "run", "rare"),
    [
        ({}, 1, ""),
        ({}, 2, ',{"run":2}'),
        (AMATEUR, 1, ',{"amateur":["org/small","def"],"chat":true}'),
        ({"engine": "vllm", "source": "00"}, 1, ',{"engine":"vllm","source":"00"}'),
        (STOPPED, 1, ',{"stop":["\\n\\n","é"]}'),
        (STOPPED, 2, ',{"run":2,"stop":["\\n\\n","é"]}'),
    ],
)
def test_continuation_ids_equal_hashes_by_hand(changes, run, rare):
    written_out = f'["p1","Once","org/model","abc","guard",1,8,8,"float32"{rare}]'
    expected = hashlib.sha256(written_out.encode()).hexdigest()[:16]
    assert replace(RECIPE, **changes).make_continuation_id(PROMPT, run) == expected
    assert ANY.make_continuation_id(PROMPT) == "eb6cba6623445652"  # printf … | sha256sum


@pytest.mark.parametrize(
    "changes",
    [
        *({"model": "org/other"}, {"revision": "abd"}, {"strategy": "guard(window=4)"}, {"seed": 2}),
        *({"max_new_tokens": 9}, {"max_prompt_tokens": 9}, {"dtype": "bfloat16"}),
    ],
)
def test_continuation_id_depends_on_recipe_and_prompt(changes):
    assert replace(RECIPE, **changes).make_continuation_id(PROMPT) != RECIPE.make_continuation_id(PROMPT)
    assert RECIPE.make_continuation_id(replace(PROMPT, text="Twice")) != RECIPE.make_continuation_id(PROMPT)
    assert RECIPE.make_continuation_id(replace(PROMPT, dataset="e")) == RECIPE.make_continuation_id(PROMPT)


def test_pair_id_depends_on_names_of_methods():
    here = replace(RECIPE, model="models/a", revision="sha256:00")
    both = replace(here, amateur="./small", amateur_revision="sha256:00")
    for recipe, field in ((here, "model"), (both, "model"), (both, "amateur")):
        assert recipe.make_continuation_id(PROMPT) == replace(recipe, **{field: "../a"}).make_continuation_id(
            PROMPT
        )
    assert both.make_continuation_id(PROMPT) != here.make_continuation_id(PROMPT)
    assert Pair.make_id("x", "y", "1", "2") != Pair.make_id("y", "x", "1", "2")
