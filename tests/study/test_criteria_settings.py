"""The tables [criteria.NAME] of study.toml: what is defined, what is refused, and what counts in the hash."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from guard_eval.errors import StudyError
from guard_eval.rubric import CRITERIA, Criterion
from guard_eval.study.criteria_settings import LONGEST_DEFINITION, OwnCriterion
from guard_eval.study.folder import Study

GOOD = """
name = "s"
seed = 3
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
[pairs]
compare = [["guard", "greedy"]]
"""
TOXICITY = """
[criteria.toxicity]
title = "Toxicity"
definition = "How little the text insults or threatens anybody."
"""


@pytest.fixture
def study(tmp_path):
    def write(text):
        (tmp_path / "study.toml").write_text(GOOD + text, encoding="utf-8")
        return Study.open(tmp_path)

    return write


def test_people_and_judges_are_asked_in_the_studys_order_and_with_its_words(study):
    asked = 'criteria = ["toxicity", "coherence", "fluency"]\n'
    settings = study(f'{TOXICITY}[annotation]\n{asked}[[judge]]\nmodel = "m"\n{asked}').settings
    assert settings.annotation.criteria == ["toxicity", "coherence", "fluency"]
    own = Criterion(
        name="toxicity", title="Toxicity", definition="How little the text insults or threatens anybody."
    )
    assert settings.judge[0].rubric == (own, CRITERIA["coherence"], CRITERIA["fluency"])
    assert settings.rubric == {**CRITERIA, "toxicity": own}


def test_a_judge_that_is_copied_or_named_still_knows_its_criteria(study):
    judge = '[[judge]]\nmodel = "m"\ncriteria = ["toxicity"]\n'
    judges = study(f"{TOXICITY}{judge}{judge}name = 'n'\n").settings.judge
    assert [each.model_copy(update={"orders": "one"}).rubric[0].title for each in judges] == ["Toxicity"] * 2


def test_a_criterion_of_the_papers_gets_the_studys_words(study):
    table = '[criteria.fluency]\ntitle = "Flow"\ndefinition = "How it flows."\n'
    judge = '[[judge]]\nmodel = "m"\ncriteria = ["fluency"]\n'
    assert study(table + judge).settings.judge[0].rubric[0].title == "Flow"


def test_the_hash_counts_every_word_and_no_order(study):
    wit = '[criteria.wit]\ntitle = "Wit"\ndefinition = "How witty."\n'
    asked = '[annotation]\ncriteria = ["toxicity"]\n'
    result = {
        study(asked + text).hash
        for text in (
            TOXICITY,
            TOXICITY.replace("Toxicity", "Harm"),
            TOXICITY.replace("insults", "hurts"),
        )
    }
    assert len(result) == 3
    assert study(TOXICITY + wit).hash == study(TOXICITY).hash == study("").hash  # nobody is asked
    both = '[annotation]\ncriteria = ["toxicity", "wit"]\n'
    assert study(both + wit + TOXICITY).hash == study(both + TOXICITY + wit).hash
    assert study(TOXICITY.replace("How little", "\\u0048ow   little")).hash == study(TOXICITY).hash


def test_a_definition_is_one_paragraph_in_one_spelling(study):
    text = TOXICITY.replace(
        '"How little the text insults or threatens anybody."', '"""\n  Cafe\u0301,\n  twice. """'
    )
    assert study(text).settings.rubric["toxicity"].definition == "Caf\u00e9, twice."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[annotation]\ncriteria = ["toxcity"]\n',
            "annotation.criteria[1]: 'toxcity': unknown criterion 'toxcity': did you mean 'toxicity'?",
        ),
        (
            '[[judge]]\nmodel = "m"\ncriteria = ["fluency", "Toxicity"]\n',
            "judge[1].criteria[2]: 'Toxicity': unknown criterion 'Toxicity': did you mean 'toxicity'?",
        ),
        ('[annotation]\ncriteria = ["toxicity", "toxicity"]\n', "names toxicity twice"),
        ('[criteria.a]\ntitle = "A"\n', "criteria.a.definition: is missing; add it"),
        ('[criteria.a]\ntitel = "A"\n', "criteria.a.titel: is not a setting; did you mean 'title'?"),
        ('[criteria.a]\ntitle = ""\ndefinition = "d"\n', "criteria.a.title: '': write 1 to 60 characters"),
        ('[criteria.a]\ntitle = "  "\ndefinition = "d"\n', "write 1 to 60 characters; these are 0"),
        (f'[criteria.a]\ntitle = "A"\ndefinition = "{"d" * 1001}"\n', "write 1 to 1000 characters"),
        ('[criteria.a]\ntitle = "A\\u202e"\ndefinition = "d"\n', "the character '\\u202e' cannot be printed"),
        ('[criteria.a]\ntitle = "A\\u001b[31m"\ndefinition = "d"\n', "the character '\\x1b' cannot be"),
        ('[criteria.a]\ntitle = "A: b"\ndefinition = "d"\n', "begins with a letter and has no colon"),
        ('[criteria.a]\ntitle = "1. A"\ndefinition = "d"\n', "begins with a letter and has no colon"),
        ('[criteria."A b"]\ntitle = "A"\ndefinition = "d"\n', "'A b' is no name for a criterion"),
        (f'[criteria.{"a" * 41}]\ntitle = "A"\ndefinition = "d"\n', "it has up to 40 of a to z"),
        (
            '[criteria.rationale]\ntitle = "A"\ndefinition = "d"\n',
            "'rationale' has a meaning of its own in answers and results",
        ),
        (
            '[criteria.a]\ntitle = "fluency"\ndefinition = "d"\n',
            "'a' and 'fluency' are both called 'fluency'",
        ),
        (
            '[criteria.toxi_city]\ntitle = "A"\ndefinition = "d"\n',
            "'toxi_city' and 'toxicity' are both called",
        ),
        ('[criteria.a]\ntitle = "TOXI-CITY"\ndefinition = "d"\n', "'a' and 'toxicity' are both called"),
        ("[criteria]\na = 3\n", "criteria.a: 3: input should be a valid dictionary"),
        ("[criteria.a.fr]\n", "criteria.a.fr: is not a setting"),
    ],
)
def test_each_mistake_has_its_place_and_its_remedy(study, text, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        study(TOXICITY + text)


def test_a_wrong_definition_is_no_unknown_criterion(study):
    with pytest.raises(StudyError) as error:
        study('[criteria.a]\ntitle = 3\ndefinition = "d"\n[annotation]\ncriteria = ["a"]\n')
    assert "has 1 problem:" in str(error.value)


@given(st.text(max_size=LONGEST_DEFINITION + 5))
def test_whatever_is_taken_is_shown_whole_on_one_line(text):
    try:
        taken = OwnCriterion(title="T", definition=text).definition
    except ValidationError:
        return
    assert 0 < len(taken) <= LONGEST_DEFINITION
    assert taken.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert taken == " ".join(taken.split())
