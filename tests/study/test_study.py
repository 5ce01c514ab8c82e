"""study.toml as it is meant: names, defaults, files, and what counts in the hash."""

import pytest
from factories import STUDY_OF_THREE as GOOD
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from refusals import expect_refusal

from guard_eval.rubric import CRITERIA, Criterion
from guard_eval.study import Study
from guard_eval.study.criteria_settings import OwnCriterion
from guard_eval.study.settings import Annotation, Recruitment
from guard_eval.study.toml import apply_overrides
from guard_eval.texts.new import new

WIT = Criterion(name="wit", title="Wit", definition="How witty it is.")
JUDGE = "judge=[{model='m'}]"


def test_strategy_names_are_normalised_to_signatures(study):
    settings = study().settings
    assert settings.generation.strategies == ["greedy", "acs(q=1)", "guard"]
    assert settings.pairs.compare == [["guard", "acs(q=1)"]]


def test_comments_and_order_do_not_change_settings(study):
    first = study()
    assert study(text="\N{ZERO WIDTH NO-BREAK SPACE}" + GOOD).settings == first.settings
    assert study(text=GOOD.replace("seed = 3", "# a word\nseed = 3")).hash == first.hash
    assert study(text=GOOD.replace('"acs"', '"acs(q=1)"')).hash == first.hash
    wit = GOOD[GOOD.index("[criteria") :]
    both = [f"{wit}{wit.replace('wit', 'fun').replace('Wit', 'Fun')}", wit.replace("How", "\\u0048ow  ")]
    fun = study("annotation.criteria=['wit', 'fun']", text=GOOD.replace(wit, both[0]))
    first, second = both[0].split("[criteria.fun]")
    swapped = f"[criteria.fun]{second}{first}"
    assert study("annotation.criteria=['wit', 'fun']", text=GOOD.replace(wit, swapped)).hash == fun.hash
    assert study(text=GOOD.replace(wit, both[1])).settings.rubric["wit"] == WIT


DEFAULTS = [
    *("generation.batch_size='auto'", "generation.runs=1", "generation.stop=[]", "metrics.level=0.95"),
    *("annotation.language=en", "annotation.repeats=0", "annotation.pages.check=false"),
    *("annotation.recruitment.oidc=false", "database=sqlite:///elsewhere.db"),
    "criteria.fun={title='Fun', definition='Nobody is asked.'}",
]
CHANGES = [
    *("seed=4", "model.amateur=x", "model.amateur_revision=v2", "generation.chat=true", "generation.runs=3"),
    *("metrics.mauve_tokens=64", "annotation.language=de", "annotation.pairs_per_rater=9", JUDGE),
    *("annotation.gold_every=9", "annotation.repeats=1", "annotation.pages.check=true"),
    *("annotation.recruitment.prolific=true", "annotation.criteria=['wit']"),
]
OF_JUDGE = ["name='strict'", "samples=2", "style='chat'", "output='text'", "temperature=0.5"]
OF_JUDGE += ["reasoning_effort='low'", "max_output_tokens=600", "headers={anthropic-workspace='w'}"]


def test_hash_changes_only_with_settings_that_change_results(study):
    first, judged = study().hash, study(JUDGE).hash
    assert [line for line in DEFAULTS if study(line).hash != first] == []
    assert [line for line in CHANGES if study(line).hash == first] == []
    assert [line for line in OF_JUDGE if study(f"judge=[{{model='m', {line}}}]").hash == judged] == []


def test_batch_size_device_map_and_stop_are_read(study):
    changes = ("model.device={model = 0, lm_head = 'cpu'}", 'generation.stop=["é", "\\n", "é"]')
    settings = study(*changes, "generation.runs=3").settings
    assert settings.generation.batch_size == "auto"
    assert settings.model.device_map == {"model": 0, "lm_head": "cpu"}
    models = [study(f"model.device={name}").settings.model for name in ("sequential", "cuda:1")]
    assert [model.device_map for model in models] == ["sequential", None]
    assert [model.single_device for model in (settings.model, *models)] == ["auto", "auto", "cuda:1"]
    assert settings.generation.stop == ["\n", "é"]
    names = ("guard", "top_k", "guard(select=sample)")
    assert [settings.count_texts_per_prompt(name) for name in names] == [1, 3, 3]


def test_contrastive_decoding_has_an_amateur(study):
    strategies = "generation.strategies=['guard', 'acs', 'contrastive_decoding']"
    settings = study(strategies, "model.amateur=tiny").settings
    assert [settings.find_amateur(name) for name in settings.generation.strategies[1:]] == [None, "tiny"]
    model = study("model.amateur=org/tiny", "model.amateur_revision=refs/pr/1").settings.model
    assert (settings.model.amateur_revision, model.amateur_revision) == ("main", "refs/pr/1")


def test_criteria_keep_the_order_and_words_of_the_study(study):
    criteria = '["wit", "coherence", "fluency"]'
    changed = 'criteria.fluency={title=\'Flow\', definition="""\n  Cafe\u0301,\n flows. """}'
    opened = study(f"annotation.criteria={criteria}", f"judge=[{{model='m', criteria={criteria}}}]", changed)
    flow = Criterion(name="fluency", title="Flow", definition="Caf\u00e9, flows.")
    assert opened.settings.annotation.criteria == ["wit", "coherence", "fluency"]
    [judge] = opened.settings.judge
    assert judge.model_copy(update={"orders": "one"}).rubric == (WIT, CRITERIA["coherence"], flow)
    assert opened.settings.rubric == {**CRITERIA, "fluency": flow, "wit": WIT}


@given(st.text(max_size=1005))
def test_definition_of_a_criterion_becomes_one_line(text):
    try:
        taken = OwnCriterion(title="T", definition=text).definition
    except ValidationError:
        return
    assert 0 < len(taken) <= 1000
    assert taken.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert taken == " ".join(taken.split())


def test_pairs_are_distributed_by_the_settings(study):
    plan = study("annotation={pairs_per_rater=5, gold_every=4, repeats=2}").hand_out_plan
    assert (plan.quota, plan.gold_every, plan.repeats) == (5, 4, 2)


def test_pages_before_the_first_pair_are_off_by_default(tmp_path):
    assert set(Annotation().pages.model_dump().values()) == {False}
    new(tmp_path / "new")
    settings = Study.open(tmp_path / "new").settings
    annotation = settings.annotation
    assert annotation.pages.model_dump() == {
        "consent": True,
        "background": False,
        "practice": True,
        "check": True,
    }
    assert annotation.recruitment == Recruitment()
    assert settings.judge[0].orders == "both"


def test_model_folder_is_relative_to_the_study(study):
    opened = study()
    (opened.folder / "here").mkdir()
    assert opened.locate_model("here") == str(opened.folder / "here")
    assert opened.locate_model("../models/x") == str(opened.folder.parent / "models/x")
    assert opened.locate_model("org/model") == "org/model"
    assert opened.locate_model("bundled").endswith("guard_eval/demo/model")


def test_missing_study_is_named(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "file"):
        with expect_refusal(r"no study.toml in .*; name a study's folder, or .* new "):
            Study.open(path)


@pytest.mark.parametrize(
    ("assignment", "result"),
    [
        ("a.b=1", {"a": {"b": 1, "c": 0}, "l": [{"x": 0}], "s": "t"}),
        ("l[1].x = two words", {"a": {"c": 0}, "l": [{"x": "two words"}], "s": "t"}),
        ("l[1] = {y = 1}", {"a": {"c": 0}, "l": [{"y": 1}], "s": "t"}),
        ("s=1\nseed=2", {"a": {"c": 0}, "l": [{"x": 0}], "s": "1\nseed=2"}),
        (f"s=0x{'f' * 5000}", {"a": {"c": 0}, "l": [{"x": 0}], "s": f"0x{'f' * 5000}"}),
        *(
            (wrong, "this is not a setting; write table.key=value or judge")
            for wrong in (
                *("s", "l[2].x=1", "l[0].x=1", "l[" + "9" * 5000 + "]=1", "l.x=1", "m[1].x=1", "a[1]=1"),
                *("s.x=1", "s.x.y=1", "s[1]=1", "=1"),
            )
        ),
    ],
)
def test_overrides_change_settings_for_one_run(assignment, result):
    tables = {"a": {"c": 0}, "l": [{"x": 0}], "s": "t"}
    if isinstance(result, str):
        with expect_refusal(result):
            apply_overrides(tables, [assignment])
    else:
        assert apply_overrides(tables, [assignment]) == result
    assert tables == {"a": {"c": 0}, "l": [{"x": 0}], "s": "t"}
