"""docs/study_toml.md and docs/study.schema.json are current, and the schema takes real studies."""

import json
import tomllib
from pathlib import Path

import pytest
from settings_reference import DOCS, FILES, meanings, schema, tables

import guard_eval.demo
from guard_eval.texts.new import new


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_are_current(path: Path):
    made = FILES[path]()
    assert path.read_text(encoding="utf-8") == made, "run: python tools/settings_reference.py"


def test_every_key_has_a_meaning_and_stands_on_the_page():
    page = (DOCS / "study_toml.md").read_text(encoding="utf-8")
    for heading, table in tables():
        described = {
            name for base in table.__mro__ if hasattr(base, "model_fields") for name in meanings(base)
        }
        assert set(table.model_fields) <= described | {
            key
            for key in table.model_fields
            if any(each.split(".")[-1].strip("[]") == key or f"{key}.NAME" in each for each, _ in tables())
        }, heading
        assert not heading or f"## `[{heading}]`" in page
    assert "| `criteria` | list of text |" in page


def test_the_schema_takes_what_new_writes_and_marks_mistakes(tmp_path: Path):
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(schema())
    check.check_schema(schema())
    new(tmp_path / "s")
    written = tomllib.loads((tmp_path / "s" / "study.toml").read_text(encoding="utf-8"))
    demo = tomllib.loads((Path(guard_eval.demo.__file__).parent / "study.toml").read_text(encoding="utf-8"))
    judged = {**demo, "judge": [{"model": "m", "prompt": "p.txt", "temperature": 0.5}]}
    for study in (written, demo, judged):
        assert [error.message for error in check.iter_errors(study)] == []
    for change in ({"sed": 1}, {"seed": "x"}, {"analysis": {"alpha": 2}}, {"pairs": {"compare": [["a"]]}}):
        assert list(check.iter_errors({**demo, **change})), change
    assert json.loads((DOCS / "study.schema.json").read_text(encoding="utf-8")) == schema()
