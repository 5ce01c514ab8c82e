"""What all commands share: -h, -q, --json, --set and completion."""

import json
import shutil
import stat
import sys

import pytest
from command_line import run_process

pytestmark = pytest.mark.slow


def test_quiet_works_before_and_after_the_command(run, study):
    for arguments in (("-q", "generate", "small"), ("generate", "small", "-q")):
        shutil.rmtree(study / "continuations", ignore_errors=True)
        ran = run(*arguments)
        assert ran.code == 0, ran
        assert "Next:" not in ran.out
        assert "━" not in ran.out
        assert "greedy: 6 of 6" in ran.out
    assert "Next:" in run("generate", "small").out  # it does not last


def test_standard_output_has_only_json(typed, paired):
    added = json.loads(typed("raters", "add", "small", "Zoë", "--json").out)
    assert list(added["links"]) == ["Zoë"]
    ascii_only = typed("raters", "list", "small", "--json", PYTHONIOENCODING="ascii")
    (zoe,) = json.loads(ascii_only.out)["raters"]
    assert (zoe["name"], zoe["kind"], zoe["rated"], zoe["external_id"]) == ("Zoë", "person", 0, None)


def test_proposed_commands_name_the_path_of_the_program(tmp_path):
    program = tmp_path / ".venv" / "bin" / "guard-eval"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nfrom guard_eval.__main__ import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def next_of(path, *arguments):
        ran = run_process([".venv/bin/guard-eval", *arguments], tmp_path, PATH=path)
        return ran.out + ran.err

    assert "Next: .venv/bin/guard-eval generate one --dry-run" in next_of("/usr/bin:/bin", "new", "one")
    assert "run: .venv/bin/guard-eval generate one" in next_of("/usr/bin:/bin", "pair", "one")
    active = f"{program.parent}:/usr/bin:/bin"
    assert "Next: guard-eval generate two --dry-run" in next_of(active, "new", "two")


def test_completion_knows_commands_and_options(typed, tmp_path):
    ran = typed("--install-completion", HOME=str(tmp_path), BASH_VERSION="5.2", ZSH_VERSION="")
    assert ran.code == 0, ran
    script = tmp_path / ".local" / "share" / "bash-completion" / "completions" / "guard-eval"
    assert str(script) in ran.out
    assert str(script) in (tmp_path / ".bashrc").read_text()

    def completed(*words):
        ask = (
            f"source {script}; COMP_WORDS=(guard-eval {' '.join(words)}); COMP_CWORD={len(words)}; "
            "$(complete -p guard-eval | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); printf '%s\\n' ${COMPREPLY[@]}"
        )
        return run_process(["bash", "-c", ask]).out.split()

    assert completed("gen") == ["generate"]
    assert completed("generate", "small", "--strat") == ["--strategy"]


@pytest.mark.parametrize("command", [("new", "s"), ("replicate", "main", "s", "--dry-run")])
def test_several_files_may_follow_prompts(run, tmp_path, command):
    for name in ("wikitext", "book"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"prompt": "Once {name}"}}\n')
    ran = run(*command, "--prompts", "wikitext.jsonl", "book.jsonl")
    assert ran.code == 0
    assert "2 prompts" in ran.out
