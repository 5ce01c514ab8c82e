"""Gold pairs at the command line."""

import json

import pytest

from guard_eval.store import Store, pairs
from guard_eval.study.folder import Study

GOLD = {"prompt": "The storm had passed, and", "better": "the harbour lay still.", "worse": "still the lay."}


@pytest.mark.slow
def test_pair_stores_the_gold_pairs_of_the_file(run, paired):
    toml = paired / "study.toml"
    text = toml.read_text().replace("[annotation]", '[annotation]\ngold = "gold.jsonl"')
    toml.write_text(text)
    assert "annotation.gold: 'gold.jsonl': there is no such file" in run("pair", "small").refused()
    (paired / "gold.jsonl").write_text(json.dumps(GOLD) + "\n")
    ran = run("pair", "small")
    planned = "3 pairs, 0 new. People will rate 3 of them, 2 people each; judges can rate all."
    assert f"{planned} Gold pairs: 1." in ran.out
    assert "gold pairs: 1, annotation.gold_every: None; set annotation.gold" in ran.err
    toml.write_text(text.replace("[annotation]", "[annotation]\ngold_every = 2"))
    assert run("pair", "small").err == ""
    with Store.open(Study.open(paired).database) as store:
        assert len(pairs.read_gold_pairs(store)) == 1
        assert len(pairs.read_pairs(store)) == 3
