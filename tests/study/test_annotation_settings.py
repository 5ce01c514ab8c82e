"""The table [annotation] of study.toml: what is left out changes nothing, what is wrong is named."""

import pytest

from guard_eval.errors import StudyError
from guard_eval.study.annotation_settings import Annotation, Recruitment
from guard_eval.study.folder import Study
from guard_eval.texts.new import TEMPLATE

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


@pytest.fixture
def study(tmp_path):
    for name in ("w.toml", "wording.toml"):
        (tmp_path / name).write_text('[consent]\nlead = "Ahoi"\n', encoding="utf-8")

    def write(text):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return Study.open(tmp_path)

    return write


def test_what_is_left_at_its_default_leaves_the_hash(study):
    first = study(GOOD).hash
    written = (
        '[annotation]\nlanguage = "en"\nrepeats = 0\n'
        "[annotation.pages]\ncheck = false\n[annotation.recruitment]\noidc = false\n"
    )
    assert study(GOOD + written).hash == first


@pytest.mark.parametrize(
    "lines",
    [
        "[annotation]\nlanguage = 'de'",
        "[annotation]\nwording = 'w.toml'",
        "[annotation]\npairs_per_rater = 9",
        "[annotation]\ngold_every = 9",
        "[annotation]\nrepeats = 1",
        "[annotation.pages]\ncheck = true",
        "[annotation.recruitment]\nprolific = true",
    ],
)
def test_what_is_set_counts(study, lines):
    assert study(f"{GOOD}{lines}\n").hash != study(GOOD).hash


def test_pairs_are_shared_out_as_asked(study):
    plan = study(GOOD + "[annotation]\npairs_per_rater = 5\ngold_every = 4\nrepeats = 2\n").plan
    assert (plan.quota, plan.gold_every, plan.repeats) == (5, 4, 2)


def test_no_page_is_shown_that_was_not_asked_for_and_new_asks_for_them(study):
    assert set(Annotation().pages.model_dump().values()) == {False}
    values = {"name": '"s"', "seed": 1, "model": '"bundled"', "compute": '"length"', "scorer": '"bundled"'}
    asked = study(TEMPLATE.format(**values, new_tokens=8, prompt_tokens=8)).settings.annotation
    assert asked.pages.model_dump() == {"consent": True, "background": False, "practice": True, "check": True}
    assert asked.recruitment == Recruitment()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[annotation]\nlanguage = 'fr'", "annotation.language: 'fr': input should be 'en' or 'de'"),
        ("[annotation]\nwording = 'w.txt'", "annotation.wording: 'w.txt': wording is a TOML file"),
        ("[annotation.pages]\nconsnt = true", "is not a setting; did you mean 'consent'?"),
        ("[annotation.pages]\ncheck = 'yes'", "pages.check: 'yes': input should be a valid boolean"),
        ("[annotation.recruitment]\ncompletion_url = 'x'", "'x': a web address begins with https://"),
        ("[annotation.recruitment.codes]\ncompleted = 'a b'", "recruitment.codes.completed: 'a b'"),
        ("[annotation.recruitment.codes]\ncompleted = 'A'\ndeclined = 'A'", "two endings have the same code"),
        ("[annotation.recruitment]\nprolific_study = 's'", "prolific = true is not; add it"),
        ("[annotation]\ngold_every = 0", "gold_every: 0: input should be greater than or equal"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(study, lines, message):
    with pytest.raises(StudyError) as error:
        study(f"{GOOD}{lines}\n")
    assert message in str(error.value)
