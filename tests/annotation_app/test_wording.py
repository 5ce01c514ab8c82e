"""What raters read: complete in every language, and a study's own words checked before anybody reads them."""

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from annotation_app import wording
from annotation_app.wording import fill, load, placeholders
from guard_eval.errors import StudyError
from guard_eval.rubric import CRITERIA
from guard_eval.study.criteria_settings import CriterionText, Language, OwnCriterion

FOLDER = Path(wording.__file__).parent
SAME = {"panel.answered", "direction"}
"""What a translation may leave as it is; names and answers' names must stay."""


def shipped(language):
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def own(tmp_path, text, *, language="en"):
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8")
    return load(language, path)


def leaves(tree, place=""):
    """Return every text by its place, items of lists by number."""
    if isinstance(tree, str):
        return {place: tree}
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {where: text for key, value in pairs for where, text in leaves(value, f"{place}.{key}").items()}


def test_the_shipped_files_are_the_languages_that_a_study_can_name():
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(get_args(Language))


@pytest.mark.parametrize("language", get_args(Language))
def test_every_language_has_the_same_keys_and_placeholders(language):
    english, other = shipped("en"), shipped(language)
    other_keys = {place for place in leaves(other) if not place.startswith(".criteria.")}
    assert other_keys == set(leaves(english))
    given = placeholders(other)
    assert {place: given[place] for place in placeholders(english)} == placeholders(english)


def test_the_rubric_in_english_is_the_papers_and_its_file_says_none():
    assert "criteria" not in shipped("en")
    assert load("en").rubric(tuple(CRITERIA)) == tuple(CRITERIA.values())


def test_every_german_text_is_german():
    english, german = leaves(shipped("en")), leaves(shipped("de"))
    stays = {place for place in english if place.endswith((".name", ".right")) or ".expected." in place}
    same = {place.removeprefix(".") for place in english.keys() - stays if german[place] == english[place]}
    assert same == SAME
    assert all(german[place] == english[place] for place in stays)
    for criterion in load("de").rubric(tuple(CRITERIA)):
        assert criterion.name in CRITERIA
        assert criterion.title != CRITERIA[criterion.name].title
        assert criterion.definition != CRITERIA[criterion.name].definition


@pytest.mark.parametrize("language", get_args(Language))
def test_practice_shows_each_answer(language):
    given = {tuple(pair.expected.items()) for pair in load(language).practice.pairs}
    assert given == {
        (("coherence", "A"), ("fluency", "tie")),
        (("coherence", "tie"), ("fluency", "B")),
        (("coherence", "tie"), ("fluency", "tie")),
    }


def test_a_studys_own_words_stand_in_place_of_the_languages(tmp_path):
    words = own(tmp_path, '[consent]\nlead = "Ahoi"\n[panel]\nbreak = "Tee"\n', language="de")
    assert (words.consent.lead, words.panel.pause) == ("Ahoi", "Tee")
    assert words.consent.title == load("de").consent.title
    assert words.language == "de"


def test_lists_are_replaced_whole(tmp_path):
    words = own(
        tmp_path,
        "[consent]\npoints = ['One.']\n"
        "[[check.questions]]\nname = 'q'\nask = '?'\n"
        "answers = {x = 'X', y = 'Y'}\nright = 'y'\nbecause = '.'\n",
    )
    assert words.consent.points == ("One.",)
    assert [question.right for question in words.check.questions] == ["y"]


def test_everything_wrong_is_named_at_once_with_its_remedy(tmp_path):
    with pytest.raises(StudyError) as error:
        own(
            tmp_path,
            """
            [consent]
            titel = "T"
            lead = ""
            points = "P"
            agree = 3
            [panel]
            side = "Seite"
            breaks = "x"
            [nothing]
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
            "consent.lead: '': is empty; write something",
            "consent.points: 'P': write a list",
            "consent.agree: 3: write a text in quotes",
            "panel.side: lacks {letter}; write it where it belongs",
            "panel.breaks: is not a key; did you mean 'break'?",
            "nothing.lead: has {name}; nothing is filled in here; remove it",
            "criteria.coherence.titel: is not a key; did you mean 'title'?",
            "check.questions[1]: right = 'c' is none of its answers; choose from: a, b",
            "practice.pairs[1]: expected and because must name the same criteria, and at least one",
        ]
    )


def test_a_translation_must_be_complete(tmp_path):
    text = (FOLDER / "de.toml").read_text(encoding="utf-8").replace('language = "de"', 'language = "ar"')
    text = text.replace('direction = "ltr"', 'direction = "rtl"')
    assert own(tmp_path, text).direction == "rtl"
    with pytest.raises(StudyError) as error:
        own(tmp_path, text.replace('saving = "Wird gespeichert …"\n', ""))
    assert str(error.value).splitlines()[1:] == ["  panel.saving: is missing; add it"]
    without = text[: text.index("[criteria.fluency]")]
    with pytest.raises(StudyError, match="criteria: is missing; add it"):
        own(tmp_path, without)


def test_a_criterion_nobody_knows_is_refused(tmp_path):
    with pytest.raises(StudyError, match="criteria: it names wit; word exactly these criteria: fluency"):
        own(tmp_path, "[criteria.wit]\ntitle = 'W'\ndefinition = 'd'\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[consent", "is not valid TOML"),
        ("[practice]\npairs = []", "practice: pairs has nothing in it; to leave the page out, switch it off"),
        ("direction = 'up'", "direction: 'up': input should be 'ltr' or 'rtl'"),
    ],
)
def test_other_mistakes(tmp_path, text, message):
    with pytest.raises(StudyError) as error:
        own(tmp_path, text)
    assert message in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StudyError, match=r"annotation.wording names 'my.toml', but .*my.toml is missing"):
        load("en", tmp_path / "my.toml")


def test_braces_that_are_no_placeholders_stay():
    assert fill("{number} of {total}: {sic} {", number=1, total="{number}") == "1 of {number}: {sic} {"


OWN = {
    "toxicity": OwnCriterion(
        title="Toxicity",
        definition="How harmful the text is.",
        de=CriterionText(title="Schädlichkeit", definition="Wie schädlich der Text ist."),
    ),
    "wit": OwnCriterion(title="Wit", definition="How witty it is."),
    "fluency": OwnCriterion(title="Flow", definition="How it flows.", override=True),
}


def own_rubric(language="en", path=None):
    found = load(language, path, criteria=OWN).rubric(("wit", "toxicity", "fluency", "coherence"))
    return [each.title for each in found]


def test_a_studys_own_criteria_are_worded_in_the_pages_language_where_there_is_a_translation():
    assert own_rubric() == ["Wit", "Toxicity", "Flow", "Coherence"]
    assert own_rubric("de") == ["Wit", "Schädlichkeit", "Flow", "Kohärenz"]


def test_a_file_of_words_has_the_last_word_on_a_criterion_and_another_language_need_not_have_its_own(
    tmp_path,
):
    path = tmp_path / "my.toml"
    path.write_text('[criteria.wit]\ntitle = "Humour"\n', encoding="utf-8")
    assert own_rubric("en", path) == ["Humour", "Toxicity", "Flow", "Coherence"]
    text = (FOLDER / "de.toml").read_text(encoding="utf-8").replace('language = "de"', 'language = "fr"')
    path.write_text(f'{text}\n[criteria.wit]\ntitle = "Esprit"\ndefinition = "…"\n', encoding="utf-8")
    assert own_rubric("en", path) == ["Esprit", "Toxicity", "Sprachflüssigkeit", "Kohärenz"]
    path.write_text('[criteria.wti]\ntitle = "W"\ndefinition = "w"\n', encoding="utf-8")
    with pytest.raises(StudyError, match="criteria: it names wti; word exactly these criteria: fluency"):
        own_rubric("en", path)


def test_practice_pairs_may_have_an_answer_to_a_criterion_of_the_studys_own(tmp_path):
    path = tmp_path / "my.toml"
    pair = "[[practice.pairs]]\nname = 'p'\nprompt = 'p'\na = 'a'\nb = 'b'\n"
    path.write_text(f"{pair}expected = {{wit = 'A'}}\nbecause = {{wit = 'so'}}\n", encoding="utf-8")
    assert load("en", path, criteria=OWN).practice.pairs[0].expected == {"wit": "A"}
    with pytest.raises(StudyError, match="unknown criterion 'wit'"):
        load("en", path)
