"""What all commands share: -h, -q, -v, --json, completion, and an action before the study."""

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import environment
from made import text_file

import guard_eval.demo
from guard_eval.cli.commands import COMMANDS, WITH_JSON

pytestmark = pytest.mark.slow

BUNDLED = Path(guard_eval.demo.__file__).parent / "model"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short_for_every_command(run, name):
    short, long = run(name, "-h"), run(name, "--help")
    assert short == long
    assert short.code == 0
    assert all(option in short.out for option in ("--quiet", "--verbose"))
    assert ("--json" in short.out) == (name in WITH_JSON | {"progress", "replicate"})


def test_quiet_before_the_command_and_after_it(run, study):
    for arguments in (("-q", "generate", "small"), ("generate", "small", "-q")):
        shutil.rmtree(study / "continuations", ignore_errors=True)
        ran = run(*arguments)
        assert ran.code == 0, ran
        assert "Next:" not in ran.out
        assert "━" not in ran.out
        assert "greedy: 6 of 6" in ran.out
    assert "Next:" in run("generate", "small").out  # it does not last


def test_json_is_all_there_is_on_standard_output(typed, paired):
    added = json.loads(typed("raters", "small", "add", "Zoë", "--json").out)
    assert [link["rater"] for link in added["links"]] == ["Zoë"]
    assert added["links"][0]["url"].startswith("http://localhost:8501/?invite=")
    ascii_only = typed("raters", "small", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(ascii_only.out)["raters"][0] | {"seconds": 0} == {
        "rater": "Zoë",
        "kind": "person",
        "handed_out": 0,
        "rated": 0,
        "seconds": 0,
        "gold": 0,
        "gold_failed": 0,
        "state": "",
        "flags": [],
        "source": None,
        "external_id": None,
    }
    measured = json.loads(typed("measure", "small", "--metrics", "diversity,length", "--json").out)
    assert {score["metric"] for score in measured["scores"]} >= {"diversity", "words"}
    assert "NaN" not in json.dumps(measured)
    preview = json.loads(typed("judge", "small", "--dry-run", "--json").out)
    assert preview["previews"][0]["requests"] == 6
    assert preview["judges"] == []


def test_json_and_an_error(run):
    ran = run("raters", "nowhere", "--json")
    assert ran.code == 2
    assert "there is no folder" in json.loads(ran.out)["error"]


def test_an_action_before_the_study(run, paired):
    assert "Ada: http" in run("raters", "add", "small", "Ada").out
    assert "Bob: http" in run("raters", "small", "add", "Bob").out
    assert "Ada" in run("raters", "list", "small").out
    assert run("raters", "exclude", "small", "Ada", "--reason", "too fast").code == 0
    assert run("db", "backup", "small", "copy.db").code == 0


def test_a_study_that_is_called_like_an_action(run, paired, tmp_path):
    shutil.copytree(paired, tmp_path / "add")
    assert "Ada: http" in run("raters", "add", "add", "Ada").out
    assert "Ada" in run("raters", "add", "list").out  # the study add, as documented
    assert "Ada" in run("raters", "add").out
    assert "Eve: http" in run("raters", "add", "small", "Eve").out  # small is no action
    assert "Eve" not in run("raters", "add").out
    shutil.copytree(paired, tmp_path / "list")
    shutil.rmtree(tmp_path / "add")
    assert "Zoe: http" in run("raters", "add", "list", "Zoe").out  # only list is a study


def test_commands_to_be_copied_have_the_path_where_the_name_is_not_found(tmp_path):
    program = tmp_path / ".venv" / "bin" / "guard-eval"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nfrom guard_eval.__main__ import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def next_of(path, *arguments):
        ran = subprocess.run(
            [".venv/bin/guard-eval", *arguments],
            cwd=tmp_path,
            env=environment(PATH=path),
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout + ran.stderr

    assert "Next: .venv/bin/guard-eval generate one --dry-run" in next_of("/usr/bin:/bin", "new", "one")
    assert "run: .venv/bin/guard-eval generate one" in next_of("/usr/bin:/bin", "pair", "one")
    active = f"{program.parent}:/usr/bin:/bin"
    assert "Next: guard-eval generate two --dry-run" in next_of(active, "new", "two")


def test_completion_of_commands_options_and_actions(tmp_path, paired):
    program = tmp_path / "guard-eval"
    program.write_text(f"#!{sys.executable}\nfrom guard_eval.__main__ import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def completed(*words):
        return subprocess.run(
            [program],
            cwd=tmp_path,
            env=environment(
                _GUARD_EVAL_COMPLETE="complete_bash",
                COMP_WORDS=" ".join(["guard-eval", *words]),
                COMP_CWORD=str(len(words)),
            ),
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()

    assert completed("gen") == ["generate"]
    assert completed("generate", "small", "--mo") == ["--model"]
    assert completed("raters", "small", "ex") == ["exclude"]


def test_other_models_and_batches_for_one_run(run, study, tmp_path):
    def ids():
        lines = text_file(study, "greedy").read_text().splitlines()
        return [(row["id"], row["model"]) for row in map(json.loads, lines)]

    assert run("generate", "small", "--strategy", "greedy").code == 0
    first = ids()
    # neither the device nor the batch is part of the id: nothing is made again
    ran = run("generate", "small", "--strategy", "greedy", "--device", "cpu", "--batch-size", "1")
    assert "greedy: 6 of 6 continuations exist" in ran.out
    assert ids() == first
    shutil.copytree(BUNDLED, tmp_path / "models" / "other")
    (tmp_path / "models" / "other" / "generation_config.json").write_text("{}")
    ran = run("generate", "small", "--strategy", "greedy", "--model", "models/other")
    assert ran.code == 0, ran
    assert "measure and pair use these texts once study.toml names it" in ran.out
    assert {model for _, model in ids()[len(first) :]} == {"../models/other"}
    assert not {name for name, _ in first} & {name for name, _ in ids()[len(first) :]}
    assert "batch_size: 'x'" in run("generate", "small", "--batch-size", "x").refused()
    assert "'tpu'" in run("generate", "small", "--device", "tpu").refused()
    assert "there is no folder" in run("generate", "small", "--model", "./nope", "--dry-run").refused()
