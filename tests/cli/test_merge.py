"""`guard-eval merge` as its user meets it: what it says, what it refuses, what it leaves."""

import made
import pytest
from typer.testing import CliRunner

from guard_eval.cli import app
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_continuations, continuation_file, read_continuations
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard, reserve

pytestmark = pytest.mark.slow

STUDY = """
name = "small"
seed = 5
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
max_new_tokens = 12
[pairs]
compare = [["guard", "greedy"]]
"""


@pytest.fixture
def folder(tmp_path):
    """Ten prompts; greedy has them all in two shards, GUARD a first shard and a second that is not whole."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    (folder / "prompts.txt").write_text("".join(f"Once {n}\n" for n in range(10)))
    (folder / "study.toml").write_text(STUDY.replace("[pairs]", '[prompts]\nfile = "prompts.txt"\n[pairs]'))
    prompts = read_prompts(folder / "prompts.txt")
    for strategy in ("greedy", "guard"):
        for shard in (Shard(1, 2), Shard(2, 2)):
            mine = [prompt for prompt in prompts if shard.holds(prompt.id)]
            if (strategy, shard.number) == ("guard", 2):
                mine = mine[2:]
            append_continuations(
                continuation_file(folder / "continuations", strategy, shard),
                [made.continuation("…", prompt, recipe_of(strategy)) for prompt in mine],
            )
    return folder


def recipe_of(strategy):
    return made.recipe(model="bundled", seed=5, strategy=strategy, max_new_tokens=12, max_prompt_tokens=256)


def merge(*arguments):
    ran = CliRunner().invoke(app, ["merge", *map(str, arguments)])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return " ".join(ran.output.split())


def test_shards_are_joined_and_what_is_missing_is_told(folder):
    printed = merge(folder)
    second = [p.id for p in read_prompts(folder / "prompts.txt") if Shard(2, 2).holds(p.id)]
    assert "greedy: 10 of 10 continuations in 2 files" in printed
    assert (
        f"guard: 8 of 10 continuations in 2 files missing: {second[0]}, {second[1]} of shard 2/2: 2"
        in printed
    )
    assert printed.endswith(f"Next: guard-eval generate {folder} --shard 2/2")
    assert sorted(path.name for path in (folder / "continuations").iterdir()) == [
        "greedy.jsonl",
        "guard.jsonl",
    ]
    assert len(list(read_continuations(folder / "continuations" / "guard.jsonl"))) == 8


def test_a_dry_run_joins_nothing(folder):
    before = sorted((folder / "continuations").iterdir())
    printed = merge(folder, "--dry-run")
    assert "guard: 8 of 10 continuations in 2 files" in printed
    assert printed.endswith(f"Next: guard-eval merge {folder}")
    assert sorted((folder / "continuations").iterdir()) == before


def test_another_machines_copy_fills_what_is_missing(folder, tmp_path):
    prompts = read_prompts(folder / "prompts.txt")
    other = tmp_path / "copy" / "continuations"
    append_continuations(
        continuation_file(other, "guard"),
        [made.continuation("…", prompt, recipe_of("guard")) for prompt in prompts],
    )
    (other / "top_k(k=5).jsonl").write_text("")
    printed = merge(folder, "--from", tmp_path / "copy")
    assert "top_k(k=5).jsonl: of none of the study's strategies; left alone" in printed
    assert "guard: 10 of 10 continuations in 3 files; 8 occur twice, the same both times" in printed
    assert printed.endswith(f"or: guard-eval pair {folder}")
    assert len(list(other.iterdir())) == 2


def test_nothing_is_written_when_one_strategy_does_not_fit(folder):
    prompt = next(one for one in read_prompts(folder / "prompts.txt") if Shard(1, 2).holds(one.id))
    changed = made.continuation("another text", prompt, recipe_of("guard"))
    append_continuations(continuation_file(folder / "continuations", "guard", Shard(3, 3)), [changed])
    with pytest.raises(StudyError, match="have the same id"):
        merge(folder)
    assert (folder / "continuations" / "greedy.shard-1-of-2.jsonl").exists()


def test_not_while_somebody_generates(folder):
    with (
        reserve(Study.open(folder).continuations, Shard(2, 2)),
        pytest.raises(StudyError, match="another guard-eval generate"),
    ):
        merge(folder)


def test_files(folder, tmp_path):
    parts = sorted((folder / "continuations").glob("guard*"))
    output = tmp_path / "guard.parquet"
    assert f"guard: 8 texts of 2 files continuations: {output}" in merge(*parts, "-o", output)
    assert len(list(read_continuations(output))) == 8
    assert len(parts) == len(sorted((folder / "continuations").glob("guard*")))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("{folder}", "-o", "x.jsonl"), "--output x.jsonl is for files"),
        (("{folder}", "--from", "nowhere"), "--from nowhere: there is no such folder"),
        (("{part}",), "say what the files become: --output OUT.jsonl"),
        (("{part}", "-o", "{part}"), "exists already"),
        (("{part}", "-o", "out.csv"), "names no format"),
        (("{part}", "none.jsonl", "-o", "out.jsonl"), "there is no file none.jsonl"),
        (("{part}", "x.csv", "-o", "out.jsonl"), "x.csv: no file of guard-eval generate"),
        (("{part}", "--from", "{folder}"), "--from is for a study"),
    ],
)
def test_what_is_refused(folder, arguments, says):
    part = folder / "continuations" / "guard.shard-1-of-2.jsonl"
    with pytest.raises(StudyError) as error:
        merge(*(one.format(folder=folder, part=part) for one in arguments))
    assert says in str(error.value)
