"""Files that a study names: inside its folder, regular, and read in time that grows with their length."""

import os
import re

import pytest
from factories import STUDY_OF_THREE

from guard_eval.errors import StudyError
from guard_eval.study.folder import Study
from guard_eval.study.toml import parse_toml
from guard_eval.study.wording import load_wording

OWN_WORDING = '[annotation]\nwording = "own.toml"\n'


@pytest.fixture
def folder(tmp_path):
    """Make a study's folder with traps in it: a pipe, and links to a secret and to a device."""
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "secret.toml").write_text('hunter2 = "hunter2"\n', encoding="utf-8")
    (folder / "study.toml").write_text(STUDY_OF_THREE, encoding="utf-8")
    (folder / "link.toml").symlink_to(tmp_path / "secret.toml")
    (folder / "up").symlink_to(tmp_path)
    (folder / "device.toml").symlink_to("/dev/zero")
    (folder / "loop.toml").symlink_to(folder / "loop.toml")
    (folder / "sub.toml").mkdir()
    os.mkfifo(folder / "pipe.toml")
    return folder


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("key", "setting"),
    [
        *((key, f"{key}={{}}") for key in ("prompts.file", "annotation.wording", "annotation.gold")),
        *((f"judge[1].{key}", f"judge=[{{{{model='m', {key}='{{}}'}}}}]") for key in ("prompt", "examples")),
    ],
)
def test_study_reads_no_outside_file_and_no_pipe(folder, tmp_path, key, setting):
    traps = ("../secret", "up/secret", "link", "device", "loop", "pipe", "sub", "/etc/hostname")
    for name in (*traps, str(tmp_path / "secret")):
        with pytest.raises(StudyError) as error:
            _ = Study.open(folder, [setting.format(f"{name}.toml")]).prompts_path
        assert f"{key}: " in str(error.value)
        assert "hunter2" not in str(error.value)


@pytest.mark.timeout(20)
def test_a_prompts_file_that_became_a_pipe_is_refused(folder):
    study = Study.open(folder, ["prompts.file=p.jsonl"])
    with pytest.raises(
        StudyError, match=r"prompts\.file: 'p\.jsonl': there is no such file .*; write this file, or"
    ):
        _ = study.prompts_path
    os.mkfifo(folder / "p.jsonl")
    with pytest.raises(StudyError, match=r"prompts\.file: 'p\.jsonl': there is no such file"):
        _ = study.prompts_path


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a." * 200_000 + "a = 1", "a key has more than 64 parts"),
        ("[" + "a . " * 200_000 + "a]", "a key has more than 64 parts"),
        ("x = {" + '"a".' * 200_000 + "a = 1}", "a key has more than 64 parts"),
        ('"a\\"b".' * 100_000 + "a = 1", "a key has more than 64 parts"),
        ("'a#\"'." * 100_000 + "a = 1", "a key has more than 64 parts"),
        ("x = " + "[" * 100_000 + "]" * 100_000, "recursion"),
        ("x = " + "{a = " * 100_000, "recursion"),
        (f"x = {'9' * 5000}", "Exceeds the limit"),
        (f"x = 0x{'f' * 5000}", "Exceeds the limit"),
        ("x = " + "1" * 2**20, "is larger than"),
    ],
    ids=[
        "dotted",
        "heading",
        "quoted",
        "escaped",
        "literal",
        "list",
        "table",
        "number",
        "hexadecimal",
        "long",
    ],
)
def test_a_hostile_toml_file_is_refused_at_once(run, folder, tmp_path, text, says):
    """A key of 200 000 parts took more than 100 s; nesting and long numbers ended in tracebacks."""
    (tmp_path / "verdicts.csv").write_text("pair_id,prompt_id,method_a,method_b,rater,criterion,verdict\n")
    (tmp_path / "report.toml").write_text(text + "\n", encoding="utf-8")
    assert re.search(says, run("report", str(tmp_path / "verdicts.csv")).refused())
    (folder / "own.toml").write_text(text, encoding="utf-8")
    (folder / "study.toml").write_text(STUDY_OF_THREE + OWN_WORDING, encoding="utf-8")
    with pytest.raises(StudyError, match=f"{says}|is larger than"):
        load_wording(Study.open(folder))
    (folder / "study.toml").write_text(f"{STUDY_OF_THREE}{text}\n", encoding="utf-8")
    with pytest.raises(StudyError, match=says):
        Study.open(folder)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "lines",
    ["[[judge]]\nmodel = 'm'\n" * 40_000, "".join(f"k{i} = 1\n" for i in range(60_000))],
    ids=["judges", "unknown keys"],
)
def test_many_problems_are_reported_in_linear_time(folder, lines):
    (folder / "study.toml").write_text(STUDY_OF_THREE + lines, encoding="utf-8")
    with pytest.raises(StudyError) as error:
        Study.open(folder)
    assert len(str(error.value).splitlines()) < 100


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        'x = "' + '\\"' * 500_000 + "\\\n",  # a line without an end
        '\\"""' * 250_000,
        "'" * 1_000_000,
        "'\"" * 500_000,
        "x = {" + "a=1," * 250_000,
        "a\t" * 500_000,
    ],
    ids=["escapes", "three quotes", "quotes", "both quotes", "table", "spaces"],
)
def test_every_character_of_toml_is_read_once(text):
    """Whoever looks for keys from every character on takes hours for a file of a megabyte."""
    with pytest.raises(StudyError, match="is not valid TOML"):
        parse_toml(text, "study.toml")


def test_dots_in_values_do_not_count_as_key_parts():
    dots = "a." * 100
    text = f'x = \'{dots}\'\ny = """\n{dots}a = "1\n"""\n# {dots}a\nz = \'"{dots}a\'\n'
    assert parse_toml(text, "study.toml") == {"x": dots, "y": f'{dots}a = "1\n', "z": f'"{dots}a'}


@pytest.mark.timeout(60)
def test_placeholders_with_many_spaces_take_linear_time(folder):
    (folder / "ask.txt").write_text("{{" + " " * 500_000 + "x")
    with pytest.raises(StudyError, match="the prompt has the placeholders"):
        Study.open(folder, ["judge=[{model='m', prompt='ask.txt'}]"])
