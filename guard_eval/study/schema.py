"""JSON Schemas of study.toml and report.toml, for editors that complete and check these files."""

import inspect
import json
import re
from pathlib import Path

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, ModelSchema

from guard_eval.records import JsonObject
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.study.criteria_settings import SettingsTable, StudyFile
from guard_eval.study.settings import Settings

STUDY_TOML = "study.toml"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """A generator of JSON Schemas. A value that only Python code can check may be anything in the schema."""

    def handle_invalid_for_json_schema(self, schema: CoreSchema, error_info: str) -> JsonSchemaValue:
        del schema, error_info
        return {}

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Return the schema of a table. Each key has a description in place of pydantic's title."""
        table = schema["cls"]
        if table is StudyFile:  # study.toml has a file's name instead
            return {"type": "string"}
        definition = super().model_schema(schema)
        del definition["title"]
        definition["description"] = (inspect.getdoc(table) or "").partition("\n")[0]
        meanings = read_key_meanings(table)
        for key, value in definition["properties"].items():
            value.pop("title", None)
            if key in meanings:
                value["description"] = meanings[key]
        return definition


def make_schema_file_name(file: str) -> str:
    """Return the name of a file's schema, which is in the same folder.

    >>> make_schema_file_name("study.toml")
    'study.schema.json'
    """
    return f"{Path(file).stem}.schema.json"


def make_schema_comment(file: str) -> str:
    """Return the comment that begins a settings file and names its schema for editors."""
    return f"#:schema ./{make_schema_file_name(file)}\n"


def write_study_toml(folder: Path, settings: bytes) -> None:
    """Write study.toml into a new study's folder, after its schema. study.toml marks a complete study."""
    path = folder / make_schema_file_name(STUDY_TOML)
    schema = encode_schema(Settings, STUDY_TOML)
    check_replaceable(path, f'"title": "{STUDY_TOML}"', searched=len(schema))
    write_atomically(path, schema, make_folder=True)
    write_atomically(folder / STUDY_TOML, make_schema_comment(STUDY_TOML).encode() + settings)


def encode_schema(table: type[BaseModel], file: str) -> bytes:
    """Return the JSON Schema of study.toml or report.toml, as the bytes of a file."""
    return (json.dumps(build_schema(table, file), indent=1, ensure_ascii=False) + "\n").encode()


def build_schema(table: type[BaseModel], file: str) -> JsonObject:
    """Return the JSON Schema of a file of settings. Each key has a description."""
    return {"$schema": DIALECT, "title": file, **table.model_json_schema(schema_generator=_Generator)}


def read_key_meanings(table: type[BaseModel]) -> dict[str, str]:
    """Return the meaning of each key, from the Attributes in the docstrings of a table and its bases."""
    result: dict[str, str] = {}
    for kind in reversed(table.__mro__):
        text = inspect.cleandoc(kind.__doc__ or "") if issubclass(kind, SettingsTable) else ""
        _, _, attributes = text.partition("Attributes:\n")
        entries = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", attributes, re.MULTILINE | re.DOTALL)
        result |= {name: " ".join(words.split()) for name, words in entries}
    return result
