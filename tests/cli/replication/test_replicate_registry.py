"""The list of tables and figures is the paper's, and what each needs follows from its study."""

import re

import pytest

from guard_eval.cli.replication.needs import needs
from guard_eval.cli.replication.paper import ENTRIES, MODELS, PROMPTS, find, labels, model_named, published
from guard_eval.cli.replication.studies import FOLDER, changed, settings_of, shipped, without
from guard_eval.errors import StudyError

RUN = [entry for entry in ENTRIES if entry.study]


def test_every_float_of_the_paper_is_listed(tex):
    known = {entry.label for entry in ENTRIES}
    floats = re.findall(r"\\label\{((?:tab|fig):.+?)\}", tex)
    assert len(floats) == 26
    assert set(floats) == {label for label in known if not label.startswith("app:")}
    captions = re.findall(r"\\caption(?:of\{table\})?\{", tex)
    algorithms = re.findall(r"\\begin\{(?:break)?ablealgorithm\}|\\begin\{breakablealgorithm\}", tex)
    boxes = re.findall(r"\\begin\{tcolorbox\}", tex)
    assert len(captions) == len(floats) + len(algorithms)
    assert len(ENTRIES) == len(floats) + len(algorithms) + len(boxes)


def test_the_models_and_numbers_of_prompts_are_the_papers(tex):
    for dataset, n in PROMPTS.items():
        assert re.search(rf"{dataset}.{{0,25}}n = {n}", tex)
    assert {figure.model for label in labels() for figure in published(label)} - {""} == set(MODELS)


def test_names_are_told_apart():
    names = [word for entry in ENTRIES for word in (entry.name, entry.label)]
    assert len(set(names)) == len(names)
    assert find("main") is find("tab:ablation_resultglacs") is find("ablation_resultglacs")
    with pytest.raises(
        StudyError, match=r"'lamda': did you mean 'lambda'\? choose from: method, entropy, main"
    ):
        find("lamda")


@pytest.mark.parametrize("entry", RUN, ids=lambda entry: entry.name)
def test_a_study_is_shipped_for_everything_that_can_be_run(entry):
    settings = settings_of(entry)
    assert settings.model.name == MODELS[entry.models[0]].hub
    assert settings.generation.max_new_tokens == 256
    if entry.label in labels() and entry.kind in {"metrics", "speed"}:
        wanted = {figure.strategy for figure in published(entry.label)} - {"human"}
        assert set(settings.generation.strategies) == wanted
        if entry.kind == "metrics":
            assert set(settings.metrics.compute) == {figure.metric for figure in published(entry.label)}
            assert {f.model for f in published(entry.label)} == set(entry.models)
    elif entry.kind == "verdicts":
        wanted = {name for f in published(entry.label) for name in (f.strategy, f.versus)}
        assert set(settings.generation.strategies) == wanted
        assert entry.pairs == len(settings.pairs.compare) * settings.pairs.per_dataset * len(PROMPTS)
        assert not entry.people or settings.annotation.raters_per_pair == entry.people


def test_no_study_is_left_over():
    assert {path.stem for path in FOLDER.glob("*.toml")} == {entry.study for entry in RUN}


def test_needs_by_hand():
    """λ: five strategies, 1314 + 2000 + 1947 prompts of 256 tokens; 32 texts take 20 ms a step."""
    found = needs(find("lambda"))
    assert found.tokens == 5 * 5261 * 256
    assert found.gpu_hours == pytest.approx(5 * 5261 * 256 / 32 * 0.020 / 3600)
    assert found.memory_gb == 6 + 4  # OPT-2.7B, which scores, is larger than GPT2-XL
    judged = needs(find("llm"))
    assert judged.requests == 3 * 150 * 2
    assert judged.judge_usd == pytest.approx(
        900 * (1750 * 2 + (60 + 1000) * 10) / 1e6
    )  # $2 and $10 a million tokens
    assert needs(find("method")).tokens == 0
    widest = needs(find("beam")).gpu_hours / needs(find("top-k")).gpu_hours
    assert widest == pytest.approx((3 + 5 + 10 + 15 + 20 + 50 + 1) / 7)


def test_models_are_known_by_both_names():
    assert model_named("qwen/qwen2.5-7b") is MODELS["Qwen2.5-7B"] is model_named("Qwen2.5-7B")
    assert model_named("Qwen/Qwen2.5-0.5B") is None


def test_a_study_is_changed_where_asked_and_nowhere_else():
    text = shipped(find("main"))
    other = changed(
        text, {("model", "name"): "x", ("generation", "max_new_tokens"): 8, ("prompts", "limit"): 3}
    )
    before, after = text.split("\n"), other.split("\n")
    assert set(after) - set(before) == {'name = "x"', "max_new_tokens = 8", "limit = 3"}
    assert set(before) - set(after) == {'name = "Qwen/Qwen2.5-7B"', "max_new_tokens = 256"}
    assert 'name = "tab:ablation_resultglacs"' in after  # the study's name is not its model's
    assert without(text, "contrastive_decoding").count("\n") == text.count("\n") - 1


def test_what_is_only_shown_has_no_study():
    with pytest.raises(StudyError, match=r"app:F has nothing to run; guard-eval judge STUDY --dry-run"):
        shipped(find("judge-prompt"))
