"""Gold pairs: read from the file that study.toml names, and stored by `pair`."""

import json

import pytest

from guard_eval.errors import StudyError
from guard_eval.study.criteria_settings import StudyFile
from guard_eval.texts.pairing import parse_gold_pairs

GOLD = {"prompt": "The storm had passed, and", "better": "the harbour lay still.", "worse": "still the lay."}


def gold(*lines):
    return parse_gold_pairs(
        StudyFile(file="gold.jsonl", text="\n".join(lines)), criteria=("fluency", "coherence")
    )


def test_gold_line_becomes_pair_with_criteria():
    first, second = gold(json.dumps(GOLD), "", json.dumps({**GOLD, "prompt": "x", "criteria": ["fluency"]}))
    assert first.expected == {"fluency": "a", "coherence": "a"}
    assert second.expected == {"fluency": "a"}
    assert (first.pair.prompt, first.pair.text_a, first.pair.text_b) == tuple(GOLD.values())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"{json.dumps(GOLD)}\n{{", "line 2: not valid JSON"),
        (json.dumps({**GOLD, "worse": " "}), 'line 1 needs "prompt"'),
        (json.dumps({**GOLD, "worse": f" {GOLD['better']}\r\n"}), "three texts that raters can tell apart"),
        (json.dumps({**GOLD, "criteria": ["wit"]}), "\"criteria\" names ['wit']; write some of the study's"),
    ],
)
def test_invalid_gold_line_is_named(line, says):
    with pytest.raises(StudyError) as error:
        gold(line)
    assert says in str(error.value)
