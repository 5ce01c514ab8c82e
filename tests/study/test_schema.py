"""The JSON Schema beside study.toml: an independent validator agrees with what the program reads."""

import json
import re
import tomllib

import pytest

from guard_eval.demo import STUDY as DEMO
from guard_eval.study.schema import build_schema, read_key_meanings
from guard_eval.study.settings import Settings
from guard_eval.texts.new import new

jsonschema = pytest.importorskip("jsonschema", reason="Streamlit brings this validator")
SERVED = (
    'name = "s"\nseed = 1\n[[system]]\nname = "x"\nmodel = "m"\nbase_url = "http://localhost/v1"\n'
    'body = {min_p = 0.1, stop = ["."]}\n[[system]]\nname = "y"\nfile = "prompts.jsonl"\n'
    '[pairs]\ncompare = [["x", "y"]]\n[annotation]\nwording = "words.toml"\n'
)


def faults(text, schema):
    return [
        error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(tomllib.loads(text))
    ]


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s") / "study"
    new(folder)
    first = (folder / "study.toml").read_text().partition("\n")[0]
    name = re.fullmatch(r"#:schema \./(.+)", first)[1]
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_schema_accepts_every_valid_study(schema, tmp_path):
    jsonschema.Draft202012Validator.check_schema(schema)
    new(tmp_path / "s", model="gpt2")
    for text in ((tmp_path / "s" / "study.toml").read_text(), DEMO.read_text(encoding="utf-8"), SERVED):
        assert faults(text, schema) == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("seed = 1", 'seed = "1"', "'1' is not of type 'integer'"),
        ("per_dataset = 50", "per_datset = 50", "'per_datset' was unexpected"),
        ("alpha = 0.05", "alpha = 5", "5 is greater than or equal to the maximum of 1"),
        (
            'correction = "holm"',
            'correction = "bonferroni"',
            "'bonferroni' is not one of ['holm', 'bh', 'max-t']",
        ),
        ("seed = 1", "", "'seed' is a required property"),
    ],
)
def test_schema_refuses_mistakes_in_settings(schema, tmp_path, before, after, fault):
    new(tmp_path / "s")
    text = (tmp_path / "s" / "study.toml").read_text()
    assert before in text
    assert fault in "\n".join(faults(text.replace(before, after), schema))


def test_the_schema_explains_every_key(schema):
    for name, definition in {"Settings": schema, **schema["$defs"]}.items():
        for key, value in definition.get("properties", {}).items():
            is_table = "$ref" in str(value)
            assert value.get("description") or is_table or key == "criteria", f"{name}.{key}"
    assert schema == build_schema(Settings, "study.toml")
    assert read_key_meanings(Settings)["seed"] == schema["properties"]["seed"]["description"]
