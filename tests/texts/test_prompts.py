"""Prompts from files: what is read, and what a bad line says."""

import pytest

from guard_eval.errors import StudyError
from guard_eval.texts.prompts import read_prompts


def write(tmp_path, *lines, name="tales.jsonl"):
    path = tmp_path / name
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_prompts_without_id_or_dataset_get_defaults(tmp_path):
    path = write(
        tmp_path, '{"prompt": "A"}', "", '{"prompt": "B", "id": "x", "dataset": "d", "reference": "r"}'
    )
    first, second = read_prompts(path)
    assert (first.id, first.dataset, first.text, first.reference) == ("tales-0001", "tales", "A", None)
    assert (second.id, second.dataset, second.text, second.reference) == ("x", "d", "B", "r")


def test_numeric_prompt_ids_are_accepted(tmp_path):
    path = write(tmp_path, '{"prompt": "A", "id": 7, "dataset": 2024}', '{"prompt": "B", "id": "7"}')
    with pytest.raises(StudyError, match="line 2: an earlier prompt has the id '7'"):
        read_prompts(path)
    (only,) = read_prompts(write(tmp_path, '{"prompt": "A", "id": 7, "dataset": 2024}'))
    assert (only.id, only.dataset) == ("7", "2024")


def test_file_name_is_the_default_dataset(tmp_path):
    paths = [write(tmp_path, '{"prompt": "A"}', '{"prompt": "B"}', name=f"{name}.jsonl") for name in "xy"]
    assert [(prompt.dataset, prompt.id) for prompt in read_prompts(*paths)] == [
        *(("x", "x-0001"), ("x", "x-0002"), ("y", "y-0001"), ("y", "y-0002"))
    ]
    with pytest.raises(StudyError, match=r"x\.jsonl, line 1: an earlier prompt has the id 'x-0001', too"):
        read_prompts(*paths, paths[0])


def test_files_without_ids_can_follow_files_with_the_same_ids(tmp_path):
    paths = [write(tmp_path, '{"prompt": "A", "id": 0}', name=f"{name}.jsonl") for name in "xy"]
    with pytest.raises(StudyError, match=r"y\.jsonl, line 1: .* change one, or remove the ids of this file"):
        read_prompts(*paths)
    write(tmp_path, '{"prompt": "A"}', name="y.jsonl")
    assert [prompt.id for prompt in read_prompts(*paths)] == ["0", "y-0001"]


@pytest.mark.parametrize(
    ("name", "mark", "begin"), [("a.csv", ",", b""), ("a.csv", ";", b"\xef\xbb\xbf"), ("a.TSV", "\t", b"")]
)
def test_spreadsheet_tables_are_read(tmp_path, name, mark, begin):
    rows = [["id", "prompt", "reference", "pages"], ["1", '"Once; upon, a\ttime"', "", "3"]]
    rows += [["x", '"He said ""no""\r\nand"', "left", ""]]
    path = write(tmp_path, begin + "".join(mark.join(row) + "\r\n" for row in rows).encode(), name=name)
    first, second = read_prompts(path)
    assert (first.id, first.dataset, first.text) == ("1", "a", "Once; upon, a\ttime")
    assert first.reference is None
    assert (second.text, second.reference) == ('He said "no"\r\nand', "left")


def test_headings_match_regardless_of_case_and_punctuation(tmp_path):
    """Of two headings that mean the same, the exact one has the name, or else the first."""
    path = tmp_path / "p.csv"
    path.write_text("Prompt ID,PROMPT,Prompt,prompt,Gold\n7,a,b,c,d\n")
    [prompt] = read_prompts(path)
    assert (prompt.id, prompt.text, prompt.reference) == ("7", "c", "d")
    path.write_text("PROMPT,Prompt\na,b\n")
    assert [prompt.text for prompt in read_prompts(path)] == ["a"]


def test_id_has_priority_over_prompt_id(tmp_path):
    path = write(tmp_path, *(f'{{"prompt": "A", "id": "{name}", "prompt_id": "q"}}' for name in "ab"))
    assert [prompt.id for prompt in read_prompts(path)] == ["a", "b"]


def test_each_line_of_plain_text_is_a_prompt(tmp_path):
    assert [p.text for p in read_prompts(write(tmp_path, "One\r", "Two", name="a.txt"))] == ["One", "Two"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["id,prompt", "1,A", "2,"], "line 3: there is no text under the key 'prompt'"),
        (["id,text", "1,A"], "line 2: there is no text under the key 'prompt' (keys: id, text)"),
        (["id,prompt", ""], "has no prompts"),
        (['{"prompt": 3}'], "line 1: 'prompt' is 3; it must be a string"),
        (['{"prompt": "A"}', b'{"prompt": "\xff"}'], "is not UTF-8 (line 2, byte 28"),
        (['{"prompt": "A"}', '{"prompt": " "}'], "line 2: there is no text under"),
    ],
)
def test_invalid_prompt_line_is_named(tmp_path, lines, says):
    with pytest.raises(StudyError) as error:
        read_prompts(
            write(tmp_path, *lines, name="a.csv" if "," in lines[0] and "{" not in lines[0] else "a.jsonl")
        )
    assert says in str(error.value)
