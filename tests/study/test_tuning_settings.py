"""Grids and [tuning] in study.toml: what is refused, and what is to be said of a choice."""

import pytest
from refusals import expect_refusal

from guard_eval.errors import StudyError
from guard_eval.generation.strategies import parse_grid
from guard_eval.records import PEOPLE
from guard_eval.study.tuning import Choice, Search, TriedSetting

HEAD = """
name = "s"
seed = 1
[model]
name = "bundled"
"""
GRID = '[generation]\nstrategies = ["guard", "top_p(p=[0.8, 0.9])"]\n'
RULE = '[tuning]\nprompts = 2\nmaximize = "coherence"\n'
FORTY = list(range(1, 41))
PAIRS = '[pairs]\ncompare = [["guard", "top_p"]]\n'


def test_each_setting_of_a_grid_is_a_system(study):
    settings = study(text=HEAD + GRID + RULE + PAIRS).settings
    assert list(settings.systems) == ["guard", "top_p(p=0.8)", "top_p(p=0.9)"]
    assert settings.grids == {"top_p": ["top_p(p=0.8)", "top_p(p=0.9)"]}
    assert settings.pairs.compare == [["guard", "top_p"]]


def test_several_lists_give_all_combinations():
    grid = parse_grid("dry( multiplier = [0.5,1])  + top_k(k=[5, 9])")
    assert grid.text == "dry( multiplier = [0.5,1]) + top_k(k=[5, 9])"
    assert [name.rpartition(" + ")[2] for name in grid.settings] == ["top_k(k=5)", "top_k(k=9)"] * 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("top_p(p=[])", r"cannot read the strategy 'top_p\(p=\)'"),
        ("top_p(p=[0.9, 0.90])", "must give 1 to 1000 different settings"),
        ("top_p(q=[0.9])", "strategy 'top_p' has no parameter 'q'"),
        ("top_p(p=[2.0])", "p = 2.0 must be less than or equal to 1"),
        ("top_p(p=[0.9)", "cannot read the strategy"),
        (f"top_k(k={FORTY}) + dry(allowed_length={FORTY})", "must give 1 to 1000 different settings"),
    ],
)  # fmt: skip
def test_strategy_with_wrong_lists_of_values_is_refused(text, named):
    with expect_refusal(named):
        parse_grid(text)


PROBLEMS = {
    "no rule": (GRID + PAIRS, r"several settings of top_p\(p=\[0.8, 0.9\]\), and nothing .*add \[tuning\]"),
    "no grid": (GRID.replace("(p=[0.8, 0.9])", "") + RULE + PAIRS, "no strategy has several settings"),
    "an unknown metric": (
        GRID + RULE.replace("coherence", "coherense") + PAIRS,
        "tuning.maximize: 'coherense': input should be 'diversity', 'mauve', 'coherence'",
    ),
    "an unknown metric in a condition": (
        GRID + RULE + 'where = ["divercity >= 90"]\n' + PAIRS,
        r"tuning.where\[1\].*did you mean 'diversity'",
    ),
    "an impossible condition": (
        GRID + RULE + 'where = ["diversity >= 101"]\n' + PAIRS,
        "tuning: where: no texts meet the conditions on diversity, which is from 0 to 100",
    ),
    "two conditions that exclude each other": (
        GRID + RULE + 'where = ["words >= 9", "words >= 2", "words <= 8"]\n' + PAIRS,
        "no texts meet the conditions on words",
    ),
    "no condition": (GRID + RULE + 'where = ["diversity > 90"]\n' + PAIRS, "not a condition; write"),
    "no better direction": (GRID + RULE.replace("coherence", "words") + PAIRS, "'words': input should be"),
    "a setting that is compared": (
        GRID + RULE + '[pairs]\ncompare = [["guard", "top_p(p=0.9)"]]\n',
        r"pairs.compare names top_p\(p=0.9\), which is not in .*: choose from: guard, top_p$",
    ),
    "a grid with the name of a system": (
        GRID.replace('"top_p', '"guard(window=[3, 5])", "top_p') + RULE + PAIRS,
        "two systems are named guard; rename one",
    ),
    "no judge": (GRID + RULE.replace("coherence", "judge") + PAIRS, "the study has no judge; add"),
    "no baseline": (GRID + RULE.replace("coherence", "judge") + PAIRS, "set metrics.baseline"),
    "a negative number": (GRID + RULE.replace("2", "-1") + PAIRS, "tuning.prompts: -1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "named"), PROBLEMS.values(), ids=PROBLEMS)
def test_untunable_settings_are_refused(study, text, named):
    with expect_refusal(named):
        study(text=HEAD + text)


def test_all_problems_of_tuning_are_named_at_once(study):
    with pytest.raises(StudyError) as refused:
        study(text=HEAD + GRID + '[tuning]\nprompts = -1\nmaximise = "coherence"\nwhere = ["x"]\n' + PAIRS)
    named = str(refused.value)
    for words in (
        "4 problems",
        "tuning.prompts: -1",
        "'maximize'",
        "tuning.where[1]",
        "tuning.maximize: is missing",
    ):
        assert words in named


def tried(name, share=0.0):
    return TriedSetting(
        name=name, scores={"coherence": 1.0, "diversity": 9.0}, meets=True, chosen_share=share
    )


def choice(study, *, prompts=99, chosen="top_p(p=0.9)", **rule):
    settings = study(text=HEAD + GRID + RULE + PAIRS).settings
    searches = [
        Search(
            strategy="top_p",
            chosen=chosen,
            settings=[tried("top_p(p=0.8)", 0.38), tried("top_p(p=0.9)", 0.62), tried("top_p(p=0.95)")],
            expected_best=[1.0, 1.0, 1.0],
        ),
        Search(strategy="guard", chosen="guard", settings=[tried("guard", 1.0)], expected_best=[1.0]),
    ]
    return Choice(
        tuning=settings.tuning.model_copy(update=rule),
        rule=settings.tuning_rule_hash,
        hash="5eed",
        prompts=[f"p{n}" for n in range(prompts)],
        searches=searches,
    )


def test_unequal_tuning_budgets_give_a_warning(study):
    chosen = choice(study, where=["diversity >= 9"])
    assert chosen.tuning_budgets_in_words == "Settings tried: top_p 3, guard 1 (nothing to choose)"
    assert chosen.selection_in_words == "coherence chose the settings on 99 separate prompts"
    assert list(chosen.list_warnings()) == [
        "Strategies had unequal numbers of settings to choose from, and more settings are an advantage."
    ]


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"where": []}, "Only coherence chose the settings"),
        ({"chosen": "top_p(p=0.95)"}, "top_p(p=0.95): p = 0.95 was the largest tried"),
        ({"chosen": "top_p(p=0.8)"}, "top_p(p=0.8): p = 0.8 was the smallest tried"),
        (
            {"prompts": 29},
            "Only 29 prompts chose the settings: another sample would choose top_p(p=0.8) in 38 %",
        ),
    ],
)
def test_uncertain_or_unfair_choice_gives_a_warning(study, changes, warning):
    chosen = choice(study, **{"where": ["diversity >= 9"], **changes})
    assert any(line.startswith(warning) for line in chosen.list_warnings())


def test_choosing_on_test_prompts_gives_a_warning(study):
    chosen = choice(study)
    chosen = chosen.model_copy(update={"tuning": chosen.tuning.model_copy(update={"prompts": 0})})
    assert "also test them" in chosen.selection_in_words
    first = next(chosen.list_warnings())
    assert first.startswith("The prompts that chose the settings also test them.")


@pytest.mark.parametrize("content", ["{}", "[", '{"rule": 1}', "x" * 10], ids=str)
def test_unreadable_tuning_choice_is_refused(study, content):
    with expect_refusal(r"cannot use .*tuning.json: .*remove this file, and choose again"):
        study(text=HEAD + GRID + RULE + PAIRS, tuning__json=content)


def test_chosen_settings_are_compared_and_declared(study):
    chosen = choice(study)
    opened = study(text=HEAD + GRID + RULE + PAIRS, tuning__json=chosen.model_dump_json())
    assert opened.settings.pairs.compare == [["guard", "top_p(p=0.9)"]]
    assert opened.valid_tuning_choice == chosen
    assert '"choice": "5eed"' in opened.declared[PEOPLE]
    longer = GRID.replace("0.9]", "0.9, 0.95]")
    extended = study(text=HEAD + longer + RULE + PAIRS, tuning__json=chosen.model_dump_json())
    assert extended.settings.pairs.compare == [["guard", "top_p(p=0.9)"]]
    assert extended.valid_tuning_choice is None  # it is of other settings
    without = GRID.replace("0.9]", "0.95]")
    changed = study(text=HEAD + without + RULE + PAIRS, tuning__json=chosen.model_dump_json())
    assert changed.settings.pairs.compare == [["guard", "top_p"]]
