"""docs/study_toml.md is current, and has every key."""

from settings_reference import DOCS, page, tables

from guard_eval.study.schema import read_key_meanings


def test_settings_reference_equals_generated_page():
    text = (DOCS / "study_toml.md").read_text(encoding="utf-8")
    assert text == page(), "run: python tools/settings_reference.py"


def test_every_setting_is_explained_on_its_page():
    text = (DOCS / "study_toml.md").read_text(encoding="utf-8")
    for heading, table in tables():
        described = {
            name
            for base in table.__mro__
            if hasattr(base, "model_fields")
            for name in read_key_meanings(base)
        }
        assert set(table.model_fields) <= described | {
            key
            for key in table.model_fields
            if any(
                heading_of.split(".")[-1].strip("[]") == key or f"{key}.NAME" in heading_of
                for heading_of, _ in tables()
            )
        }, heading
        assert not heading or f"## `[{heading}]`" in text
    assert "- `criteria` (list of text): " in text
