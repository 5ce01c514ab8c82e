"""Files that a study names: inside its folder, regular, and read in time that grows with their length."""

import os
import re

import pytest

from annotation_app.wording import of_study
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study

GOOD = """
name = "s"
seed = 3
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
[pairs]
compare = [["guard", "greedy"]]
"""
SETTINGS = {
    "prompts.file": "[prompts]\nfile = {}",
    "annotation.wording": "[annotation]\nwording = {}",
    "judge[1].prompt": "[[judge]]\nmodel = 'm'\nprompt = {}",
    "judge[1].examples": "[[judge]]\nmodel = 'm'\nexamples = {}",
}


@pytest.fixture
def folder(tmp_path):
    """Make a study's folder with traps in it: a pipe, and links to a secret and to a device."""
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "secret.toml").write_text('hunter2 = "hunter2"\n', encoding="utf-8")
    (folder / "link.toml").symlink_to(tmp_path / "secret.toml")
    (folder / "up").symlink_to(tmp_path)
    (folder / "device.toml").symlink_to("/dev/zero")
    (folder / "loop.toml").symlink_to(folder / "loop.toml")
    (folder / "sub.toml").mkdir()
    os.mkfifo(folder / "pipe.toml")
    return folder


@pytest.mark.timeout(20)
@pytest.mark.parametrize("key", SETTINGS)
@pytest.mark.parametrize(
    "name",
    [
        "../secret.toml",
        "up/secret.toml",
        "link.toml",
        "device.toml",
        "loop.toml",
        "pipe.toml",
        "sub.toml",
        "/etc/hostname.toml",
        "{secret}",
    ],
)
def test_no_command_reads_a_file_outside_the_study_or_waits_for_a_pipe(run, folder, tmp_path, key, name):
    name = name.replace("{secret}", str(tmp_path / "secret.toml"))
    (folder / "study.toml").write_text(GOOD + SETTINGS[key].format(f'"{name}"'), encoding="utf-8")
    ran = run("status", str(folder))
    assert ran.code == 2, ran.err
    assert f"{key}: " in ran.out + ran.err
    assert "hunter2" not in ran.err + ran.out


@pytest.mark.timeout(20)
def test_a_prompts_file_that_became_a_pipe_is_refused(folder):
    (folder / "study.toml").write_text(f'{GOOD}[prompts]\nfile = "p.jsonl"', encoding="utf-8")
    study = Study.open(folder)
    with pytest.raises(StudyError, match=r"there is no prompts file .*p\.jsonl; write it"):
        _ = study.prompts_path
    os.mkfifo(folder / "p.jsonl")
    with pytest.raises(StudyError, match=r"prompts\.file: 'p\.jsonl': it is no file"):
        _ = study.prompts_path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["study", "report"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a." * 200_000 + "a = 1", "a key has more than 64 parts"),
        ("[" + "a . " * 200_000 + "a]", "a key has more than 64 parts"),
        ("x = {" + '"a".' * 200_000 + "a = 1}", "a key has more than 64 parts"),
        ("x = " + "[" * 100_000 + "]" * 100_000, "nests too deeply"),
        ("x = " + "{a = " * 100_000, "nests too deeply"),
        (f"x = {'9' * 5000}", "a number that is too long"),
        (f"x = 0x{'f' * 5000}", "a number that is too long"),
        ("x = " + "1" * 2**20, "larger than|more than 1,048,576 characters"),
    ],
    ids=["dotted", "heading", "quoted", "list", "table", "number", "hexadecimal", "long"],
)
def test_a_hostile_toml_file_is_refused_at_once(run, tmp_path, kind, text, says):
    """A key of 200 000 parts took more than 100 s; nesting and long numbers ended in tracebacks."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.toml").write_text(f'{GOOD}[annotation]\nwording = "own.toml"\n', encoding="utf-8")
    (folder / "own.toml").write_text(text, encoding="utf-8")
    (tmp_path / "verdicts.csv").write_text("pair_id,prompt_id,method_a,method_b,rater,criterion,verdict\n")
    commands = {
        "study": (folder / "study.toml", ["status", str(folder)]),
        "report": (tmp_path / "report.toml", ["report", str(tmp_path / "verdicts.csv")]),
    }
    file, command = commands[kind]
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text + "\n")
    if kind == "report":
        command += ["--settings", str(file)]
    ran = run(*command)
    assert ran.code == 2, ran.err
    assert re.search(says, " ".join((ran.out + ran.err).split()))
    (folder / "study.toml").write_text(f'{GOOD}[annotation]\nwording = "own.toml"\n', encoding="utf-8")
    with pytest.raises(StudyError, match=f"{says}|it is larger than"):
        of_study(Study.open(folder))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "lines",
    ["[[judge]]\nmodel = 'm'\n" * 40_000, "".join(f"k{i} = 1\n" for i in range(60_000))],
    ids=["judges", "unknown keys"],
)
def test_many_problems_take_no_quadratic_time(folder, lines):
    (folder / "study.toml").write_text(GOOD + lines, encoding="utf-8")
    with pytest.raises(StudyError) as error:
        Study.open(folder)
    assert len(str(error.value).splitlines()) < 100
