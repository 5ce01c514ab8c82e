"""What raters read: complete in every language, and a study's own words checked before anybody reads them."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import annotation_app
from annotation_app import panel, wording
from annotation_app.wording import rubric
from guard_eval.errors import StudyError
from guard_eval.rubric import CRITERIA
from guard_eval.study import Study
from guard_eval.study.criteria_settings import Language

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
SAME = {"panel.answered", "direction"}
"""What a translation may leave as it is; names and answers' names must stay."""


def shipped(language):
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


@pytest.fixture
def load(tmp_path):
    """Return the wording of a study with a file of its own."""

    def read(text=None, *, language="en", criteria=""):
        named = "" if text is None else 'wording = "my.toml"\n'
        (tmp_path / "my.toml").write_text(text or "", encoding="utf-8")
        annotation = f'[annotation]\nlanguage = "{language}"\n{named}{criteria}'
        (tmp_path / "study.toml").write_text(STUDY + annotation, encoding="utf-8")
        return wording.of_study(Study.open(tmp_path))

    return read


def leaves(tree, place=""):
    """Return every text by its place, items of lists by number."""
    if isinstance(tree, str):
        return {place: tree}
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {where: text for key, value in pairs for where, text in leaves(value, f"{place}.{key}").items()}


def test_the_shipped_files_are_the_languages_that_a_study_can_name():
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(get_args(Language))


@pytest.mark.parametrize("language", get_args(Language))
def test_every_language_has_the_same_keys_and_placeholders(load, language):
    english, other = shipped("en"), shipped(language)
    other_keys = {index for index in leaves(other) if not index.startswith(".criteria.")}
    assert other_keys == set(leaves(english))
    assert load(language=language)["language"] == language  # and the same placeholders


def test_every_key_is_used_and_every_used_key_is_there():
    """The pages ask for texts by their keys; nothing else checks that they are spelled as in the file."""
    source = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    script = (FOLDER / "panel.js").read_text(encoding="utf-8")
    english = shipped("en")
    for table, keys in english.items():
        if table == "panel":
            unused = [key for key in keys if f"words.{key}" not in script and f'["{key}"]' not in source]
            assert set(unused) <= {"A", "tie", "B"}
        elif isinstance(keys, dict) and table != "problems":
            assert [key for key in keys if f'"{key}"' not in source and f"'{key}'" not in source] == []
    used = set(re.findall(r'texts\["(\w+)"\]', source))
    assert used <= {key for keys in english.values() if isinstance(keys, dict) for key in keys}
    used = set(re.findall(r'words\["(\w+)"\]\["(\w+)"\]', source))
    assert [(table, key) for table, key in used if key not in english[table]] == []
    assert set(re.findall(r"words\.(\w+)", script)) <= english["panel"].keys()
    assert set(english["problems"]) == set(panel.PROBLEMS)


def test_the_rubric_in_english_is_the_papers_and_its_file_says_none(load):
    assert "criteria" not in shipped("en")
    assert rubric(load(), tuple(CRITERIA)) == tuple(CRITERIA.values())


def test_a_studys_own_words_stand_in_place_of_the_languages(load):
    words = load('[consent]\nlead = "Ahoi"\n[panel]\nkeys = "Tasten"\n', language="de")
    assert (words["consent"]["lead"], words["panel"]["keys"]) == ("Ahoi", "Tasten")
    assert words["consent"]["title"] == shipped("de")["consent"]["title"]
    assert words["language"] == "de"


def test_everything_wrong_is_named_at_once_with_its_remedy(load):
    with pytest.raises(StudyError) as error:
        load(
            """
            [consent]
            titel = "T"
            lead = ""
            points = "P"
            agree = 3
            [panel]
            side = "Seite"
            keyz = "x"
            [ran_out]
            lead = "Hello {name}"
            [criteria.coherence]
            titel = "C"
            [[check.questions]]
            name = "q"
            ask = "?"
            answers = { a = "A", b = "B" }
            right = "c"
            because = "so"
            [[practice.pairs]]
            name = "p"
            prompt = "p"
            a = "a"
            b = "b"
            expected = { coherence = "A" }
            because = { fluency = "so" }
            """,
        )
    first, *lines = str(error.value).splitlines()
    assert first.endswith("my.toml has 10 problems:")
    assert sorted(line.strip() for line in lines) == sorted(
        [
            "consent.titel: is not a key; did you mean 'title'?",
            "consent.lead: '': write a text in quotes",
            "consent.points: write a list of texts in quotes, and at least one",
            "consent.agree: 3: write a text in quotes",
            "panel.side: lacks {letter}; write it where it belongs",
            "panel.keyz: is not a key; did you mean 'keys'?",
            "ran_out.lead: has {name}; nothing is filled in here; remove it",
            "criteria.coherence.titel: is not a key; did you mean 'title'?",
            "check.questions[1]: right = 'c' must be one of at least two answers, and they are: a, b",
            "practice.pairs[1]: expected and because must name the same criteria, and at least one",
        ]
    )


def test_a_translation_must_be_complete(load):
    text = (FOLDER / "de.toml").read_text(encoding="utf-8").replace('language = "de"', 'language = "ar"')
    text = text.replace('direction = "ltr"', 'direction = "rtl"')
    assert load(text)["direction"] == "rtl"
    with pytest.raises(StudyError) as error:
        load(text.replace('saving = "Wird gespeichert …"\n', ""))
    assert str(error.value).splitlines()[1:] == ["  panel.saving: is missing; add it"]
    without = text[: text.index("[criteria.fluency]")]
    with pytest.raises(StudyError, match=r"criteria\.fluency: is missing; add it"):
        load(without)


def test_a_criterion_nobody_knows_is_refused(load):
    with pytest.raises(StudyError, match=r"criteria\.wit: is not a key; remove it"):
        load("[criteria.wit]\ntitle = 'W'\ndefinition = 'd'\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[consent", "is not valid TOML"),
        (
            "[practice]\npairs = []",
            "practice.pairs: write at least one; to leave the page out, switch it off",
        ),
        ("direction = 'up'", "direction: 'up': write 'ltr' or 'rtl'"),
    ],
)
def test_other_mistakes(load, text, message):
    with pytest.raises(StudyError) as error:
        load(text)
    assert message in str(error.value)


OWN = """
[criteria.toxicity]
title = "Toxicity"
definition = "How harmful the text is."
[criteria.wit]
title = "Wit"
definition = "How witty it is."
"""


def test_a_file_of_words_has_the_last_word_on_a_criterion_and_another_language_need_not_have_its_own(load):
    def titles(words):
        return [each.title for each in rubric(words, ("wit", "toxicity", "coherence"))]

    assert titles(load(criteria=OWN)) == ["Wit", "Toxicity", "Coherence"]
    humour = '[criteria.wit]\ntitle = "Humour"\n'
    assert titles(load(humour, criteria=OWN)) == ["Humour", "Toxicity", "Coherence"]
    text = (FOLDER / "de.toml").read_text(encoding="utf-8").replace('language = "de"', 'language = "fr"')
    words = load(f'{text}\n[criteria.wit]\ntitle = "Esprit"\ndefinition = "…"\n', criteria=OWN)
    assert titles(words) == ["Esprit", "Toxicity", "Kohärenz"]
    with pytest.raises(StudyError, match=r"criteria\.wti: is not a key; did you mean 'wit'"):
        load('[criteria.wti]\ntitle = "W"\ndefinition = "w"\n', criteria=OWN)


def test_practice_pairs_may_have_an_answer_to_a_criterion_of_the_studys_own(load):
    pair = "[[practice.pairs]]\nname = 'p'\nprompt = 'p'\na = 'a'\nb = 'b'\n"
    text = f"{pair}expected = {{wit = 'A'}}\nbecause = {{wit = 'so'}}\n"
    assert load(text, criteria=OWN)["practice"]["pairs"][0].expected == {"wit": "A"}
    with pytest.raises(StudyError, match="unknown criterion 'wit'"):
        load(text)
