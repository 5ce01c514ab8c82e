"""`new`: a study's folder, from Python and from the command line."""

import json

import pytest

from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.study import Study
from guard_eval.texts.new import new
from guard_eval.texts.prompts import read_study_prompts


def test_new_study_compares_the_papers_strategies(tmp_path):
    result = new(tmp_path / "s")
    study = Study.open(tmp_path / "s")
    assert (result.prompts, result.exit_code) == (4, 0)
    compared = study.settings.generation.strategies
    assert compared == [
        "greedy",
        "top_k(k=50)",
        "top_p(p=0.95)",
        "contrastive(k=10, alpha=0.6)",
        "acs(q=1)",
        "guard",
    ]
    assert len((tmp_path / "s" / "study.toml").read_text(encoding="utf-8").splitlines()) <= 30


NAMES = ["étude😀", "back\\slash", 'quo"te', "{x}", "x%20y", "run #2", "why?"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        *zip(NAMES, NAMES, strict=True),
        *(("tab\tand\x7f", "tab and"), ("lone\udcff", "lone"), ("a\u202eb", "a b"), ("\u200b", "study")),
    ],
)
def test_a_study_may_have_any_folder_name(tmp_path, folder, name):
    new(tmp_path / folder)
    study = Study.open(tmp_path / folder)
    assert study.settings.name == name
    with Store.open(study.database, create=True):
        assert (tmp_path / folder / "study.db").exists()


def test_new_prints_files_and_next_command(run):
    ran = run("new", "my study")
    assert ran.code == 0
    assert "my study/prompts.jsonl: 4 prompts, examples to replace" in ran.out
    assert "guard-eval generate 'my study' --dry-run" in ran.out
    assert json.loads(run("new", "other", "--json").out)["prompts"] == 4
    assert "models/nope is no folder" in run("new", "third", "--model", "models/nope").out


def test_new_overwrites_no_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"cannot write .*"):
        new(tmp_path / "file")
    new(tmp_path / "s")
    with pytest.raises(StudyError, match=r"study\.toml exists already and would be overwritten"):
        new(tmp_path / "s")
    (tmp_path / "s" / "study.toml").unlink()
    assert new(tmp_path / "s").prompts == 4  # as after an interruption
    (tmp_path / "s" / "study.toml").unlink()
    (tmp_path / "s" / "prompts.jsonl").write_text('{"id": "mine", "prompt": "Once"}\n')
    with pytest.raises(StudyError, match=r"prompts\.jsonl exists already and would be overwritten"):
        new(tmp_path / "s")
    (tmp_path / "s" / "prompts.jsonl").unlink()
    (tmp_path / "s" / "study.schema.json").write_text('{"title": "mine"}')
    with pytest.raises(StudyError, match=r"study\.schema\.json exists, and is no earlier result"):
        new(tmp_path / "s")
    assert (tmp_path / "s" / "study.schema.json").read_text() == '{"title": "mine"}'


def test_limit_applies_to_each_dataset(run, tmp_path):
    for name in "xy":
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {n}\n" for n in range(3)))
    ran = run("new", "s", "--prompts", "x.txt", "y.txt")
    assert "s/prompts.jsonl: 6 prompts (3 x, 3 y)" in ran.out
    study = Study.open(tmp_path / "s", ["prompts.limit=2"])
    assert [prompt.text for prompt in read_study_prompts(study)] == ["x 0", "x 1", "y 0", "y 1"]
    assert len(read_study_prompts(study, limited=False)) == 6
    ran = run("generate", "s", "--dry-run", "--set", "prompts.limit=2")
    assert "prompts.limit = 2 leaves out 2 of 6 prompts" in ran.err
    assert "greedy: 0 of 4 continuations exist" in ran.out
