"""Bad input at the command line: one clear message, exit code 2, no traceback."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import make_command, make_environment, run_code, run_process
from factories import edit_settings

from analysis.demo import simulate_verdicts
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow

BROKEN = [
    ('name = "bundled"', 'name = "bundled"\ndevice = "cuda:7"', [], "cuda:7"),
    ("seed = 5", 'seed = 5\nprompts.file = "a\\u0000"', [], "prompts.file: 'a\\x00': "),
    ("raters_per_pair = 2", "lease_minutes = 1e300", [], "annotation.lease_minutes: 1e+300: "),
    ("raters_per_pair = 2", "lease_minutes = inf", [], "annotation.lease_minutes: inf: "),
    ('name = "bundled"', 'name = "./nope"', ["--dry-run"], "the model './nope': there is no folder"),
    ('name = "bundled"', 'name = "./model"', ["--dry-run"], "has no weights"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken[1][-20:])
def test_a_broken_study_gives_an_error_with_its_path(run, study, broken):
    before, after, options, says = broken
    (study / "model").mkdir()
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    (study / "model" / "config.json").write_text(json.dumps(config))
    edit_settings(study, before, after)
    assert says in run("generate", "small", *options).refused()


def test_too_long_prompt_stops_no_other_prompt(run, study):
    prompts = study / "prompts.jsonl"
    before, count = prompts.read_text(), len(prompts.read_text().splitlines())
    prompts.write_text(before + json.dumps({"id": "long", "prompt": "a word " * 600}) + "\n")
    command = ("generate", "small", "--set", "generation.max_prompt_tokens=1000")
    assert "the prompt 'long': too long for the model 'bundled'" in run(*command, "--dry-run").out
    refused = run(*command).refused()
    assert refused.count("the prompt 'long'") == 1
    files = [*(study / "continuations").glob("*/*.jsonl")]
    assert len(files) > 1
    assert {len(path.read_text().splitlines()) for path in files} == {count}


def test_commands_to_copy_quote_a_folder_with_a_space(run, paired):
    folder = paired.rename(paired.with_name("small $HOME study"))
    assert "guard-eval annotate 'small $HOME study' --invite NAME" in run("pair", folder.name).out
    assert "new 'a b'" in run("pair", "a b").refused()


def test_full_disk_error_names_the_output(study):
    with Path("/dev/full").open("w") as full:
        ran = run_process(make_command("status", "small"), study.parent, stdout=full)
    assert ran.code == 2
    assert ran.err.startswith("error: cannot write the output: No space left")


WITHOUT = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def other(name, *more):
    return None if name.split(".")[0] == "{}" else find(name, *more)
PathFinder.find_spec = other
from guard_eval.cli.frame import main
main()
"""


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("torch", ["generate", "small"], "generate"),
        ("torch", ["measure", "small"], "generate"),
        ("streamlit", ["annotate", "small"], "annotate"),
        ("openai", ["judge", "small", "--yes"], "servers"),
    ],
)
def test_a_missing_extra_is_named_with_its_remedy(paired, package, arguments, extra):
    if arguments[0] == "generate":
        shutil.rmtree(paired / "continuations")
    ran = run_code(WITHOUT.format(package), *arguments, folder=paired.parent)
    assert ran.code == 2, ran
    assert re.search(rf"run: pip install -e '.+\[{extra}\]'", ran.err)
    assert "Traceback" not in ran.err


def test_ctrl_c_during_start_prints_no_traceback(tmp_path):
    # the module that is loaded says that it is, and waits
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
        "class Wait:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'guard_eval.cli.frame':\n"
        "            print('loading', flush=True); import time; time.sleep(60)\n"
        "sys.meta_path.insert(0, Wait())\n"
        "from guard_eval.__main__ import main; main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=make_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout.readline() == "loading\n"
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=60)
    assert program.returncode in {-signal.SIGINT, 130}
    assert not err


def test_rights_of_a_non_database_file_stay_unchanged(run, study):
    other = study / "other"
    other.write_text("not a database, and read by others\n" * 50)
    other.chmod(0o644)
    path = study / "study.toml"
    path.write_text(f'database = "sqlite:///{other}"\n{path.read_text()}')
    assert "file is not a database" in run("judge", "small").refused()
    assert other.stat().st_mode & 0o777 == 0o644


OUTPUTS = {
    "describe": ["describe", "small", "--output"],
    "export": ["export", "small", "--output"],
    "links": ["raters", "links", "small", "ada", "--output"],
}
"""Commands that write a file that the user has named, without the file's name."""


@pytest.mark.parametrize("name", ["small/study.db", "small/study.toml", "small/texts.csv", "own/thesis.csv"])
@pytest.mark.parametrize("command", OUTPUTS)
def test_named_output_replaces_only_an_earlier_result(run, paired, tmp_path, command, name):
    simulate_verdicts(Study.open(paired))
    run("raters", "add", "small", "ada")
    (tmp_path / "own").mkdir()
    path = tmp_path / name
    if name.endswith(".csv"):
        path.write_text("id,text\n1,mine\n", encoding="utf-8")
    before = path.read_bytes()
    ran = run(*OUTPUTS[command], name)
    assert ran.code == 2, ran
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", OUTPUTS)
def test_named_output_is_written_again(run, paired, tmp_path, command):
    simulate_verdicts(Study.open(paired))
    run("raters", "add", "small", "ada")
    for _ in range(2):
        assert run(*OUTPUTS[command], "own.csv").code == 0
    other = "export" if command == "describe" else "describe"
    assert "own.csv exists, and is no earlier result" in run(*OUTPUTS[other], "own.csv").refused()


@pytest.mark.parametrize("name", ["checklist.md", "plan.md"])
def test_default_pages_of_describe_replace_no_other_file(run, paired, name):
    (paired / name).write_text("# mine\n", encoding="utf-8")
    assert f"{name} " in run("describe", "small").refused()
    assert (paired / name).read_text(encoding="utf-8") == "# mine\n"


def test_checklist_beside_a_description_replaces_no_other_file(run, paired, tmp_path):
    (tmp_path / "checklist.md").write_text("mine\n", encoding="utf-8")
    message = run("describe", "small", "--output", "new.md").refused()
    assert "checklist.md exists, and is no earlier result of this command" in message
    assert not (tmp_path / "new.md").exists()
    (tmp_path / "checklist.md").rename(tmp_path / "mine.md")
    assert run("describe", "small", "--output", "new.md").code == 0
