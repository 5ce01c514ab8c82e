"""The words on the pages are complete in every language, and a study's own words are checked."""

import re
from pathlib import Path
from typing import get_args

import pytest
from refusals import expect_refusal

import annotation_app
from annotation_app import rating
from guard_eval.rubric import CRITERIA
from guard_eval.study import Study, wording
from guard_eval.study.settings import Language
from guard_eval.study.wording import read_shipped_wording, translate_criteria

FOLDER = Path(annotation_app.__file__).parent
STUDY = """
name = "s"
seed = 1
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
[pairs]
compare = [["greedy", "guard"]]
"""


@pytest.fixture
def load_wording_text(tmp_path):
    """Return a function that loads the wording of a study with the given wording file."""

    def read(text=None, *, language="en", criteria=""):
        named = "" if text is None else 'wording = "my.toml"\n'
        (tmp_path / "my.toml").write_text(text or "", encoding="utf-8")
        annotation = f'[annotation]\nlanguage = "{language}"\n{named}{criteria}'
        (tmp_path / "study.toml").write_text(STUDY + annotation, encoding="utf-8")
        return wording.load_wording(Study.open(tmp_path))

    return read


def translate_german_file(language):
    """Return the German wording as the wording of another language."""
    german = Path(wording.__file__).with_name("de.toml").read_text(encoding="utf-8")
    return german.replace('language = "de"', f'language = "{language}"')


def list_keys(tree, path=""):
    """Return the path of every text in nested tables and lists."""
    if isinstance(tree, str):
        return {path}
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {key for name, value in pairs for key in list_keys(value, f"{path}.{name}")}


@pytest.mark.parametrize("language", get_args(Language))
def test_every_language_has_the_same_keys_and_placeholders(load_wording_text, language):
    assert list_keys(read_shipped_wording(language)) == list_keys(read_shipped_wording("en"))
    assert load_wording_text(language=language).language == language  # and the same placeholders


def test_every_key_of_wording_is_used_and_defined():
    """The pages read texts by key, and no other check compares the keys with the file."""
    source = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    script = (FOLDER / "panel.js").read_text(encoding="utf-8")
    tables = {key: table for key, table in read_shipped_wording("en").items() if isinstance(table, dict)}
    assert set(tables.pop("problems")) == set(get_args(rating.Problem))
    del tables["criteria"]
    unused = {key for key in tables["panel"] if f"words.{key}" not in script + source}
    assert unused <= {"A", "tie", "B"}  # by their letter
    assert set(re.findall(r"words\.(\w+)", script)) <= tables.pop("panel").keys()
    shell = (FOLDER / "shell.html").read_text(encoding="utf-8")
    assert tables.pop("start").keys() <= set(re.findall(r"{(\w+)}", shell))
    for table, keys in tables.items():
        assert keys.keys() <= set(re.findall(rf"(?:texts|\.{table})\.(\w+)", source)), table
    expected_keys = {key for table in tables.values() for key in table} | {"model_dump", "items"}
    assert set(re.findall(r"texts\.(\w+)", source)) <= expected_keys


def test_the_english_rubric_equals_the_papers_rubric(load_wording_text):
    assert translate_criteria(load_wording_text(), tuple(CRITERIA)) == tuple(CRITERIA.values())


def test_a_wording_file_replaces_words_of_the_language(load_wording_text):
    words = load_wording_text('[consent]\nlead = "Ahoi"\n[panel]\nkeys = "Tasten"\n', language="de")
    assert (words.consent.lead, words.panel.keys) == ("Ahoi", "Tasten")
    assert words.consent.title == read_shipped_wording("de")["consent"]["title"]
    assert words.language == "de"


def test_a_task_may_have_braces(tmp_path):
    (tmp_path / "study.toml").write_text(f'task = "Fill in {{name}}."{STUDY}', encoding="utf-8")
    assert "{name}" in wording.load_wording(Study.open(tmp_path)).instructions.lead


QUESTION = "[[check.questions]]\nname = 'q'\nask = '?'\nanswers = { a = 'A' }\nright = 'a'\n"
PAIR = "[[practice.pairs]]\nname = 'p'\nprompt = 'p'\na = 'a'\nb = 'b'\n"
MISTAKES = [
    ("[consent\n", "is not valid TOML"),
    ("[consent]\ntitel = 'T'", "consent.titel: is not a setting; did you mean 'title'?"),
    ("[consent]\nlead = ''", "consent.lead: '': string should have at least 1 character"),
    (
        "[panel]\nside = 'Side'",
        "panel.side: 'Side': the placeholders in braces differ from the English ones; write these: {letter}",
    ),
    ("[ran_out]\nlead = 'Hi {name}'", "differ from the English ones; write these: none"),
    ("[criteria.coherence]\ntitel = 'C'", "criteria.coherence.titel: is not a setting; did you mean"),
    ("[criteria.wit]\ntitle = 'W'\ndefinition = 'd'", "criteria.wit: is not a setting; choose from"),
    (f"{QUESTION[:-4]}'c'", "check.questions[1]: right = 'c' is not one of the answers; choose one: a"),
    (QUESTION * 2, "two questions, or two practice pairs, have the same name"),
    ("[practice]\npairs = []", "practice.pairs: []: list should have at least 1 item"),
    (
        f"{PAIR}expected = {{}}\nbecause = {{}}",
        "practice.pairs[1]: the tables 'expected' (the right choice",
    ),
    (f"{PAIR}expected = {{wit = 'A'}}\nbecause = {{wit = 'so'}}", "unknown criterion 'wit'"),
    (
        f"{PAIR}expected = {{fluency = 'C'}}\nbecause = {{fluency = 'so'}}",
        "input should be 'A', 'tie' or 'B'",
    ),
    ("direction = 'up'", "direction: 'up': input should be 'ltr' or 'rtl'"),
    ("direction = 'up'\n[consent]\ntitel = 'T'\nagree = 3", "my.toml has 3 problems:"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_each_mistake_in_wording_is_named(load_wording_text, text, message):
    with expect_refusal(re.escape(message)):
        load_wording_text(text)


def test_a_translation_must_be_complete(load_wording_text):
    text = translate_german_file("ar").replace('direction = "ltr"', 'direction = "rtl"')
    assert load_wording_text(text).direction == "rtl"
    with expect_refusal(r"language: 'pt_BR': string should match pattern"):
        load_wording_text(text.replace('language = "ar"', 'language = "pt_BR"'))
    with expect_refusal(r"panel\.earlier: is missing; add it"):
        load_wording_text(text.replace('earlier = "Ein früheres Paar"\n', ""))
    with expect_refusal(r"criteria\.fluency: is missing; add it"):
        fluency = slice(text.index("[criteria.fluency]"), text.index("[criteria.coherence]"))
        load_wording_text(text.replace(text[fluency], ""))


OWN = """
[criteria.toxicity]
title = "Toxicity"
definition = "How harmful the text is."
[criteria.wit]
title = "Wit"
definition = "How witty it is."
"""


def test_a_criterion_may_have_any_name(load_wording_text):
    """The names include attributes that every pydantic model has."""
    names = ("copy", "json", "model_dump", "model_config")
    tables = "".join(f'[criteria.{name}]\ntitle = "T{name}"\ndefinition = "d"\n' for name in names)
    assert [
        criterion.title for criterion in translate_criteria(load_wording_text(criteria=tables), names)
    ] == [f"T{name}" for name in names]


def test_a_wording_file_overrides_a_criterions_words(load_wording_text):
    def titles(words):
        return [criterion.title for criterion in translate_criteria(words, ("wit", "toxicity", "coherence"))]

    assert titles(load_wording_text(criteria=OWN)) == ["Wit", "Toxicity", "Coherence"]
    humour = '[criteria.wit]\ntitle = "Humour {and} more"\n'
    assert titles(load_wording_text(humour, criteria=OWN)) == ["Humour {and} more", "Toxicity", "Coherence"]
    words = load_wording_text(
        f'{translate_german_file("fr")}\n[criteria.wit]\ntitle = "Esprit"\ndefinition = "…"\n', criteria=OWN
    )
    assert titles(words) == ["Esprit", "Toxicity", "Kohärenz"]
    # A practice pair may have an answer to it.
    pair = f"{PAIR}expected = {{wit = 'A'}}\nbecause = {{wit = 'so'}}\n"
    assert load_wording_text(pair, criteria=OWN).practice.pairs[0].expected == {"wit": "A"}
