"""Bad input at the command line: one clear message, exit code 2, no traceback."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import environment

pytestmark = pytest.mark.slow


def edited(study, before, after, name="study.toml"):
    path = study / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


BROKEN = [
    ("study.toml", "max_new_tokens = 12", "max_new_tokens = 1000000000000", "generation.max_new_tokens"),
    ("study.toml", 'name = "bundled"', 'name = "bundled"\ndevice = "cuda:7"', "cuda:7"),
    ("study.toml", "seed = 5", f"seed = {'9' * 5000}", "study.toml is not valid TOML: Exceeds the limit"),
    ("study.toml", "seed = 5", f"seed = {'[' * 5000}", "recursion"),
    ("study.toml", "seed = 5", f"seed = 5 # {'x' * 2**20}", "study.toml is larger than 1,048,576 bytes"),
    ("study.toml", "seed = 5", 'seed = 5\nprompts.file = "a\\u0000"', "prompts.file: 'a\\x00': "),
    ("study.toml", "raters_per_pair = 2", "raters_per_pair = 1000000000", "raters_per_pair: 1000000000: "),
    ("study.toml", "raters_per_pair = 2", "lease_minutes = 1e300", "annotation.lease_minutes: 1e+300: "),
    ("study.toml", "raters_per_pair = 2", "lease_minutes = inf", "annotation.lease_minutes: inf: "),
    ("prompts.jsonl", '{"prompt": "Once there was a fox who"}', "{oops", "line 3: not valid JSON"),
    ("prompts.jsonl", '"Once there was a fox who"', '""', "line 3: there is no text under the key"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken[3][:20])
def test_a_broken_study_is_named(run, study, broken):
    name, before, after, says = broken
    edited(study, before, after, name)
    assert says in run("generate", "small").refused()


def test_settings_in_another_encoding(run, study):
    path = study / "study.toml"
    path.write_bytes(path.read_text().encode("utf-16"))
    assert "is no text in UTF-8 (byte 0); save it as UTF-8" in run("pair", "small").refused()


def test_a_model_folder_that_is_missing_is_named_by_new_and_by_a_dry_run(run, study, tmp_path):
    assert f"there is no folder {tmp_path / 'nope'}" in run("new", "other", "--model", "./nope").refused()
    assert "a Hugging Face id is OWNER/NAME" in run("new", "other", "--model", "my model").refused()
    assert not (tmp_path / "other").exists()
    assert "models/nope is no folder" in run("new", "other", "--model", "models/nope").out
    edited(study, 'name = "bundled"', 'name = "./nope"')
    refused = run("generate", "small", "--dry-run").refused()
    assert f"the model './nope': there is no folder {study / 'nope'}" in refused


def test_a_dry_run_refuses_more_tokens_than_the_model_holds(run, study):
    """The bundled model holds 512 tokens."""
    edited(study, "max_new_tokens = 12", "max_new_tokens = 900000")
    refused = run("generate", "small", "--dry-run").refused()
    assert "with max_new_tokens = 900000 more than the 512 tokens" in refused
    assert "set max_new_tokens below 512" in refused
    edited(study, "max_new_tokens = 900000", "max_new_tokens = 500")


def test_a_prompt_that_is_too_long_keeps_no_strategy_from_the_other_prompts(run, study):
    prompts = study / "prompts.jsonl"
    before, count = prompts.read_text(), len(prompts.read_text().splitlines())
    prompts.write_text(before + json.dumps({"id": "long", "prompt": "a word " * 600}) + "\n")
    command = ("generate", "small", "--set", "generation.max_prompt_tokens=1000")
    assert "the prompt 'long': with max_new_tokens = 12 more than" in run(*command, "--dry-run").out
    refused = run(*command).refused()
    prompts.write_text(before)
    assert refused.count("the prompt 'long'") == 1
    files = [*(study / "continuations").glob("*/*.jsonl")]
    assert len(files) > 1
    assert {len(path.read_text().splitlines()) for path in files} == {count}


def test_a_dry_run_knows_the_time_from_existing_texts(run, study):
    assert "estimated time" not in run("generate", "small", "--dry-run").out
    assert run("generate", "small", "--strategy", "greedy").code == 0
    edited(study, '"greedy", "top_k"', '"greedy"')
    with (study / "prompts.jsonl").open("a") as file:
        file.write('{"prompt": "Once there was a cow who"}\n')
    assert "at the speed of existing texts" in run("generate", "small", "--dry-run").out


def test_a_dry_run_warns_of_a_gpu_that_is_not_there(run, study):
    edited(study, 'name = "bundled"', 'name = "bundled"\ndevice = "cuda:99"')
    ran = run("generate", "small", "--dry-run")
    assert ran.code == 0
    assert "warning: model.device = 'cuda:99', but PyTorch finds" in ran.err


def test_a_dry_run_refuses_a_model_without_weights(run, study, tmp_path):
    (study / "model").mkdir()
    (study / "model" / "config.json").write_text(
        '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'
    )
    edited(study, 'name = "bundled"', 'name = "./model"')
    assert "has no weights" in run("generate", "small", "--dry-run").refused()


def test_commands_to_copy_quote_a_folder_with_a_space(run, paired):
    folder = paired.rename(paired.with_name("small $HOME study"))
    assert "guard-eval annotate 'small $HOME study' --invite NAME" in run("pair", folder.name).out
    assert "new 'a b'" in run("pair", "a b").refused()


def test_a_full_disk_under_the_output(study):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "guard_eval", "status", "small"],
            cwd=study.parent,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the output: No space left")


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
        ("openai", ["judge", "small", "--yes"], "judge"),
    ],
)
def test_a_missing_extra_is_named_with_its_remedy(paired, package, arguments, extra):
    if arguments[0] == "generate":
        shutil.rmtree(paired / "continuations")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package), *arguments],
        cwd=paired.parent,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done
    assert f"pip install 'guard-eval[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version(run):
    assert run("--version").out.startswith("guard-eval 0.")


def test_a_terminal_without_the_characters_is_written_to_all_the_same(typed, study):
    ran = typed("replicate", PYTHONIOENCODING="ascii")
    assert ran.code == 0, ran
    assert "\\u" not in ran.out
    assert "\\x" not in ran.out
    assert (
        "guard-eval pair" in typed("raters", "add", "small", "Zo\u00eb", PYTHONIOENCODING="ascii").refused()
    )


def test_ctrl_c_while_the_program_loads_ends_it_without_a_traceback(tmp_path):
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
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout.readline() == "loading\n"
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=60)
    assert program.returncode in {-signal.SIGINT, 130}
    assert not err


def test_a_file_that_is_no_database_keeps_its_rights(run, study):
    other = study / "other"
    other.write_text("not a database, and read by others\n" * 50)
    other.chmod(0o644)
    path = study / "study.toml"
    path.write_text(f'database = "sqlite:///{other}"\n{path.read_text()}')
    assert "file is not a database" in run("judge", "small").refused()
    assert other.stat().st_mode & 0o777 == 0o644
