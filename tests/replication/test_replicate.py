"""The command `replicate`: from the name of a table to our figures beside the paper's."""

import json
import re
from pathlib import Path

import pytest
from paper_data import FIGURE_LABELS

from analysis.demo import simulate_verdicts
from analysis.replication.command import replicate
from analysis.replication.paper import (
    MODELS,
    PROMPTS,
    find_paper_table,
    find_published_figures,
    read_paper_tables,
)
from analysis.replication.study import find_paper_model, plan_replication, read_prompt_files
from guard_eval.errors import StudyError
from guard_eval.study import Study
from guard_eval.study.folder import check_settings
from guard_eval.study.settings import Settings

pytestmark = pytest.mark.slow

SMALL = ("model.name=bundled", "generation.max_new_tokens=8")
RUN = [table for table in read_paper_tables() if table.experiment]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def _prompts(tmp_path):
    (tmp_path / "prompts").mkdir()
    for name in ("wikitext", "wikinews", "tales"):
        (tmp_path / "prompts" / f"{name}.jsonl").write_text('{"prompt": "Once"}\n{"prompt": "Twice"}\n')


def test_list_has_every_table_and_figure_of_the_paper(tex):
    labels = {table.label for table in read_paper_tables()}
    floats = re.findall(r"\\label\{((?:tab|fig):.+?)\}", tex)
    assert len(floats) == 26
    assert set(floats) == {label for label in labels if not label.startswith("app:")}
    algorithms = re.findall(r"\\begin\{breakablealgorithm\}", tex)
    boxes = re.findall(r"\\begin\{tcolorbox\}", tex)
    assert len(read_paper_tables()) == len(floats) + len(algorithms) + len(boxes)
    listed = replicate().tables[0].rows
    assert [row[1] for row in listed] == [table.label for table in read_paper_tables()]


def test_experiments_use_the_papers_models_and_prompts(tex):
    for dataset, n in PROMPTS.items():
        assert re.search(rf"{dataset}.{{0,25}}n = {n}", tex)
    assert {model for label in FIGURE_LABELS for model in find_published_figures(label)["model"]} - {
        ""
    } == set(MODELS)


def test_search_uses_the_settings_of_the_appendix():
    settings = check_settings(find_paper_table("search").make_study_tables(), Path())
    printed = {name for label in FIGURE_LABELS for name in find_published_figures(label)["strategy"]}
    assert {len(tried) for tried in settings.grids.values()} == {5}
    assert set(settings.systems) <= printed


@pytest.mark.usefixtures("_prompts")
def test_search_writes_a_study_but_runs_nothing():
    small = (*SMALL, "tuning.maximize=coherence", "tuning.prompts=1")
    forecast = replicate("search", dry_run=True, overrides=small).lines[1]
    assert "6 prompts" in forecast
    assert "at most 120 texts" in forecast
    first = replicate("search", overrides=small)
    assert first.next[1] == "guard-eval measure replication/search --tune"
    assert Study.open(Path("replication/search")).settings.grids["top_p"][0] == "top_p(p=0.6)"


@pytest.mark.usefixtures("_prompts")
def test_replicate_replaces_no_file_of_the_user(tmp_path):
    small = (*SMALL, "tuning.maximize=coherence", "tuning.prompts=1")
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Mine"}\n' * 3, encoding="utf-8")
    with pytest.raises(StudyError, match=r"prompts.jsonl exists already and would be overwritten"):
        replicate("search", Path(), overrides=small)
    assert (tmp_path / "prompts.jsonl").read_text(encoding="utf-8") == '{"prompt": "Mine"}\n' * 3
    assert not (tmp_path / "study.toml").exists()


@pytest.mark.parametrize("table", RUN, ids=lambda table: table.name)
def test_experiment_has_the_strategies_of_its_table(table):
    settings, figures = (
        Settings.model_validate(table.make_study_tables()),
        find_published_figures(table.label),
    )
    assert settings.model.name == MODELS[table.models[0]]
    assert settings.generation.max_new_tokens == 256
    if table.asks:
        assert set(settings.generation.strategies) == {*figures["strategy"], *figures["versus"]}
        pairs = len(settings.pairs.compare) * sum(table.prompts.values())
        assert pairs == (450 if table.name == "llm" else 150)
        assert "people" not in table.asks or settings.annotation.raters_per_pair == 4
    else:
        assert set(settings.generation.strategies) == {*figures["strategy"]} - {"human"}
        assert set(settings.metrics.compute) == {*figures["metric"]}
        assert {*figures["model"]} == set(table.models)


def test_replicate_resumes_and_refuses_other_settings(tmp_path):
    """Generate and compare texts of two datasets. A second run generates nothing."""
    lines = '{"prompt": "Once there was"}\n{"prompt": "The storm had"}\n'
    Path("wikitext.jsonl").write_text(lines)
    Path("tales.jsonl").write_text(lines)
    options = {"prompts": [Path("wikitext.jsonl"), Path("tales.jsonl")], "limit": 1}
    overrides = (*SMALL, 'metrics.compute=["diversity"]')
    result = replicate("lambda", Path("made"), **options, overrides=overrides)
    assert result.setting == (
        "model bundled, not openai-community/gpt2-xl",
        "at most 8 tokens a text, not 256",
        "1 prompts of Wikitext, not 1,314",
    )
    assert (
        f"OTHER SETTING: {'; '.join(result.setting)}. Differences say nothing about the paper."
        in result.lines
    )
    assert "not run: BookCorpus, Wikinews" in result.lines
    assert "not in the paper: tales; ours are in made/metrics/" in result.lines
    (table,) = result.tables
    assert [row[0] for row in table.rows] == [f"λ=0.9{n}" for n in (1, 3, 5, 7, 9)]
    ours = result.figures[result.figures["ours"].notna()]
    assert {*zip(ours["metric"], ours["state"], strict=True)} == {("diversity", "other setting")}
    page = tmp_path / "made" / "replication-lambda.md"
    before = page.read_bytes()
    second = replicate("lambda", Path("made"))
    assert second.figures.equals(result.figures)
    assert page.read_bytes() == before
    for changed in ({**options, "limit": 2}, {**options, "prompts": [Path("tales.jsonl")]}):
        with pytest.raises(StudyError, match="made has a replication with other settings or prompts"):
            replicate("lambda", Path("made"), **changed, overrides=overrides)


def test_replicating_peoples_table_names_next_commands():
    result = replicate("humaneval", Path("people"), limit=1, overrides=SMALL)
    assert result.lines == ("There are no verdicts yet.",)
    assert result.next[0] == "guard-eval annotate people --invite NAME"
    assert not any("judge" in line for line in result.next)  # this table asks people alone
    assert any("would make 0" in line for line in replicate("humaneval", Path("people"), dry_run=True).lines)
    simulate_verdicts(Study.open(Path("people")))
    result = replicate("humaneval-counts", Path("people"))
    assert "All raters are SIMULATED" in result.lines
    assert any(line.startswith("OTHER SETTING: model bundled, not Qwen/Qwen2.5-7B") for line in result.lines)
    shares = result.figures["ours"][result.figures["dataset"] == "All"][:3]
    assert sum(shares) == pytest.approx(100)


def test_replicate_reads_a_file_of_counts(tmp_path):
    Path("v.csv").write_text(
        "dataset,criterion,n_judgements,guard_wins,acs_wins,ties\nwikitext,coherence,200,88,38,74\n"
    )
    result = replicate("humaneval-counts", Path("R"), verdicts=Path("v.csv"), dry_run=True)
    assert result.figures["ours"].dropna().tolist()[:3] == [19, 37, 44]
    assert not Path("R").exists()


def test_dry_run_of_replicate_writes_nothing(tmp_path):
    lines = replicate("llm", limit=3, overrides=SMALL, dry_run=True).lines
    assert "6 prompts, and make at most 24 texts of at most 8 tokens each" in lines[1]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def planned(_prompts, tmp_path):
    """Return a function that plans the study of a table."""
    return lambda name, *overrides: plan_replication(
        find_paper_table(name), tmp_path / "made", (), None, overrides
    )


def test_plan_leaves_out_contrastive_decoding_without_amateur(planned):
    for overrides, included in (
        ((), True),
        (("model.name=gpt2-xl",), False),
        (("model.name=gpt2-xl", "model.amateur=gpt2"), True),
    ):
        strategies = planned("main", *overrides)[0]["generation"]["strategies"]
        assert ("contrastive_decoding" in strategies) is included


def test_plan_has_one_study_for_each_model(planned):
    table = find_paper_table("models")
    for overrides, name in (((), "Gemma-7B"), (("model.name=meta-llama/Llama-3.1-8B",), "Llama-3.1")):
        tables, _ = planned("models", *overrides)
        assert tables["model"]["name"] == MODELS[name]
        assert find_paper_model(table, Study(Path("made"), Settings.model_validate(tables))) == name


def test_plan_leaves_out_prompts_of_other_datasets(planned):
    assert {prompt.dataset for prompt in planned("median")[1]} == {"Wikinews", "tales"}


def test_published_generations_are_read_as_prompts(tmp_path):
    """Read a list with prefix_text and reference_text, and the format of contrastive decoding."""
    rows = [{"prefix_text": "Once", "reference_text": " upon", "generated_result": {"0": " more"}}]
    (tmp_path / "book_contrastive_gpt2-xl_256.json").write_text(json.dumps(rows))
    line = [{"ended": True, "gen_text": "Once more", "gold_ref": "Once upon", "prompt": "Once"}]
    (tmp_path / "wikinews_gpt2-0.8.jsonl").write_text(json.dumps(line) + "\n")
    book, news = read_prompt_files([tmp_path])
    assert (book.dataset, book.text, book.reference) == ("BookCorpus", "Once", " upon")
    assert (news.dataset, news.text, news.reference) == ("Wikinews", "Once", " upon")


def test_replicate_refuses_wrong_arguments(planned):
    Path("empty").mkdir()
    twice, verdicts = [Path("prompts"), Path("prompts")], Path("v.csv")
    for table, options, message in (
        ("lamda", {}, r"no table or figure 'lamda': did you mean 'lambda'\?"),
        ("main", {"prompts": [Path("empty")]}, r"no prompts of Wikitext.*data_from_CD_repo/benchmarks"),
        ("main", {"prompts": twice}, "two prompts have the id '.*Change one, or name each file"),
        ("main", {"overrides": ["model.nam=x"]}, "model.nam: is not a setting; did you mean 'name'"),
        (
            "main",
            {"verdicts": verdicts},
            "not a table of verdicts. To list the tables, run: guard-eval replicate",
        ),
        ("llm", {"verdicts": verdicts}, "v.csv"),
        ("main", {"limit": 0}, "--limit 0: give 1 or more"),
        ("llm", {"verdicts": verdicts, "limit": 3}, "--limit has no effect with --verdicts. Leave one"),
    ):
        with pytest.raises(StudyError, match=message):
            replicate(table, Path("out"), **options)
    assert not Path("out").exists()


def test_table_without_experiment_names_its_place():
    assert "guard-eval annotate demo-study" in replicate("form").lines[1]
    assert "guard_eval/generation/decoding/guard/step.py" in replicate("fig:figure_two").lines[1]
