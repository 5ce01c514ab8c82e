"""A judge's prompt and examples: files of the study's own folder, checked before anything is sent."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from guard_eval.errors import StudyError
from guard_eval.study.files import StudyFile
from guard_eval.study.folder import Study
from guard_eval.study.judge_files import LONGEST_EXAMPLES, LONGEST_PROMPT, PLACEHOLDERS, fill
from guard_eval.study.judge_settings import Judge

GOOD = """
name = "s"
seed = 3
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
[pairs]
compare = [["guard", "greedy"]]
[criteria.wit]
title = "Wit"
definition = "How witty it is."
[[judge]]
model = "m"
criteria = ["fluency", "wit"]
"""
EXAMPLE = {"prompt": "p", "a": "x", "b": "y", "verdict": {"fluency": "A", "wit": "tie"}}


@pytest.fixture
def study(tmp_path):
    """Open a study whose judge has these further lines, with these files beside its study.toml."""

    def write(lines, **files):
        folder = tmp_path / "study"
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / f"{name}.txt").write_bytes(data)
        (folder / "study.toml").write_text(f"{GOOD}{lines}\n", encoding="utf-8")
        return Study.open(folder)

    return write


def lines(*examples):
    return "\n".join(json.dumps(each) for each in examples)


def test_a_prompt_is_read_with_its_study_and_counts_in_the_hash(study):
    first = study('prompt = "own.txt"', own="Judge {{criteria}}.\r\n")
    assert first.settings.judge[0].prompt == StudyFile(file="own.txt", text="Judge {{criteria}}.\n")
    assert study('prompt = "own.txt"', own="Judge {{ criteria }}.").hash != first.hash != study("").hash


def test_examples_are_read_with_their_study_and_count_in_the_hash(study):
    first = study('examples = "own.txt"', own=f"\n{lines(EXAMPLE, EXAMPLE)}\n\n")
    assert [each.a for each in first.settings.judge[0].judged_examples] == ["x", "x"]
    assert study('examples = "own.txt"', own=lines({**EXAMPLE, "a": "z"})).hash != first.hash


@pytest.mark.parametrize("key", ["prompt", "examples"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.txt", "there is no such file in the study's folder"),
        ("", "it is no file; name a file in the study's folder"),
        (".", "it is no file"),
        ("../secret.txt", "it is outside the study's folder; copy it there"),
        ("sub/../../secret.txt", "there is no such file"),
        ("{absolute}", "it is outside the study's folder"),
        ("link.txt", "it is outside the study's folder"),
        ("folder_link/secret.txt", "it is outside the study's folder"),
        ("loop.txt", "this is no file's name"),
        ("pipe", "it is no file"),
        ("nul\\u0000.txt", "this is no file's name"),
        ("/dev/zero", "it is outside the study's folder"),
        ("~/secret.txt", "there is no such file"),
        ("latin.txt", "it is no text in UTF-8"),
    ],
)
def test_no_file_outside_the_study_is_read(study, tmp_path, key, name, says):
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("{{criteria}} hunter2", encoding="utf-8")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "folder_link").symlink_to(tmp_path)
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    os.mkfifo(folder / "pipe")
    (folder / "latin.txt").write_bytes(b"{{criteria}} caf\xe9")
    name = name.replace("{absolute}", str(tmp_path / "secret.txt"))
    with pytest.raises(StudyError, match=re.escape(says)) as error:
        study(f'{key} = "{name}"')
    assert f"judge[1].{key}: " in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_link_within_the_study_may_be_followed(study, tmp_path):
    (tmp_path / "study" / "sub").mkdir(parents=True)
    (tmp_path / "study" / "sub" / "p.txt").write_text("{{criteria}}", encoding="utf-8")
    (tmp_path / "study" / "link.txt").symlink_to(tmp_path / "study" / "sub" / "p.txt")
    assert study('prompt = "link.txt"').settings.judge[0].prompt.text == "{{criteria}}"


def test_files_have_a_size(study):
    with pytest.raises(StudyError, match="it is larger than 32,768 bytes"):
        study('prompt = "own.txt"', own="{{criteria}}".ljust(LONGEST_PROMPT + 1))
    with pytest.raises(StudyError, match="it is larger than 1,048,576 bytes"):
        study('examples = "own.txt"', own=lines(EXAMPLE).ljust(LONGEST_EXAMPLES + 1))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it lacks {{criteria}}, the criteria, numbered"),
        ("Judge {criteria}.", "it lacks {{criteria}}"),
        ("{{criteria}} {{critera}}", "{{critera}} is not filled in; known are: {{criteria}}, {{judg"),
        ("{{criteria}} {{0.__class__}}", "{{0.__class__}} is not filled in"),
        ("{{criteria}} {{criteria.__init__.__globals__}}", "is not filled in"),
        ("{{criteria}} {{criteria!r:>99999999}}", "is not filled in"),
        ("{{criteria}} {{}}", "{{}} is not filled in"),
    ],
)
def test_a_template_is_checked_for_its_fields(study, text, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        study('prompt = "own.txt"', own=text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has 0 examples; write 1 to 64"),
        (lines(*[EXAMPLE] * 65), "it has 65 examples; write 1 to 64"),
        ("[]", "line 1: the line: "),
        ("{", "line 1: the line: "),
        (lines(EXAMPLE, {**EXAMPLE, "winner": "A"}), "line 2: winner: "),
        (lines({"prompt": "p", "a": "x", "verdict": {"wit": "A"}}), "line 1: b: field required"),
        (lines({**EXAMPLE, "verdict": {"fluency": "a", "wit": "A"}}), "line 1: verdict.fluency: "),
        (
            lines({**EXAMPLE, "verdict": {"fluency": "A"}}),
            "m: example 1 of own.txt has no wit, which this judge",
        ),
        (lines({**EXAMPLE, "verdict": {**EXAMPLE["verdict"], "wti": "A"}}), "unknown criterion 'wti'"),
        (lines({**EXAMPLE, "rationale": "w" * 1001}), "line 1: rationale: "),
    ],
)
def test_examples_are_checked_line_by_line(study, text, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        study('examples = "own.txt"', own=text)


def test_examples_have_a_rationale_where_one_is_asked_for(study):
    with pytest.raises(StudyError, match=r"example 2 of own\.txt has no rationale, which this judge"):
        study('rationale = true\nexamples = "own.txt"', own=lines({**EXAMPLE, "rationale": "so"}, EXAMPLE))


def test_without_a_study_a_file_is_given_as_what_it_says():
    with pytest.raises(ValidationError, match="a file is read with its study"):
        Judge(model="m", prompt="prompt.txt")
    given = Judge(model="m", prompt=StudyFile(file="p", text="{{criteria}}"))
    assert Judge(**given.model_dump()) == given
    with pytest.raises(ValidationError, match="it lacks"):
        Judge(model="m", prompt=StudyFile(file="p", text=""))


@given(st.text(), st.dictionaries(st.sampled_from([*PLACEHOLDERS]), st.text()))
def test_what_is_filled_in_is_never_read_again(text, values):
    values = {name: values.get(name, "{{count}}") for name in PLACEHOLDERS}
    template = "<" + text.replace("{", "(") + ">{{criteria}}|{{ judgments }}|{{count}}|{{metrics}}"
    expected = "|".join(values[name] for name in ("criteria", "judgments", "count", "metrics"))
    assert fill(template, values) == "<" + text.replace("{", "(") + ">" + expected
