"""The field's plainest tables: two methods and a winner, with or without an id, a prompt and a judge."""

import json
import shlex
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from outcomes import refusal

from analysis import read
from analysis.reports.command import report
from guard_eval.errors import StudyError

MODELS = "model_a,model_b,winner\ngpt,olmo,model_a\nolmo,gpt,model_b\ngpt,olmo,tie\ngpt,olmo,tie (bothbad)\n"


@pytest.fixture
def table(tmp_path):
    def table(text, name="v.csv", **options):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read(path, **options)

    return table


def test_judge_in_both_orders_has_two_showings(table):
    frame = table("judge,question_id,model_a,model_b,winner\nj,7,x1,y1,model_a\nj,7,y1,x1,model_a\n")
    assert list(frame["verdict"]) == ["x1", "y1"]
    assert list(frame["pair_id"]) == ["7", "7"]
    assert len(set(frame["presentation"])) == 2


def test_pairs_of_many_methods_are_not_merged(table):
    """Of 299 methods 218 and 219 are not 0 and 83, though 218 · 300 + 219 is 83 in sixteen bits."""
    rows = [f"q{n % 5},m{n:03},m{n + 1:03},left" for n in range(298)]
    frame = table("\n".join(["item,left,right,winner", *rows, "q3,m000,m083,left"]))
    assert frame["prompt_id"].nunique() == 5
    assert frame["pair_id"].nunique() == 299


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model_a,model_b,winner\nA,B,model_a\n", "may name a side, or the method"),
        ("left,right,winner\nleft,olmo,right\nolmo,left,right\n", "may name a side, or the method 'left'"),
        ("left,right,winner\ngpt,,left\n", "is empty on line 2"),
        ("judge,worker,left,right,winner\nj,w,gpt,olmo,left\n", "rater could be worker and judge"),
    ],
)
def test_ambiguous_winner_is_refused(table, text, says):
    with pytest.raises(StudyError) as error:
        table(text)
    assert says in str(error.value)


def test_mapping_of_missing_headings_is_refused(table):
    with pytest.raises(StudyError, match=r"columns.method_a=System 3: there is no such heading"):
        table(MODELS, columns={"method_a": "System 3"})
    with pytest.raises(StudyError, match=r"columns.metod_a: there is no such column; .*'method_a'"):
        table(MODELS, columns={"metod_a": "model_a"})


def test_several_files_are_one_table(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.jsonl"
    head = "pair_id,dataset,method_a,method_b,rater,criterion,verdict\n"
    first.write_text(head + "1,d,gpt,olmo,ann,wit,gpt\n")
    row = dict(zip(head.strip().split(","), ["2", "d", "gpt", "olmo", "bob", "wit", "tie"], strict=True))
    second.write_text(json.dumps(row) + "\n")
    frame = read([first, second])
    assert list(frame["rater"]) == ["ann", "bob"]
    with pytest.raises(StudyError, match=r"a.csv, .*a.csv together: "):
        read([first, first])


def test_prompts_and_methods_name_pairs_in_all_files(tmp_path):
    """The first pair of one file is another prompt than that of the other."""
    paths = [tmp_path / "ann.csv", tmp_path / "bob.csv"]
    for path, prompts in zip(paths, (("Once", "Twice"), ("Twice", "Once")), strict=True):
        rows = [
            f"{path.stem},{prompt},gpt,{other},model_a" for prompt in prompts for other in ("olmo", "phi")
        ]
        path.write_text("\n".join(["annotator,prompt,model_a,model_b,winner", *rows]))
    verdicts = read(paths)
    assert set(verdicts["pair_id"]) == {f"{p}: gpt, {m}" for p in ("Once", "Twice") for m in ("olmo", "phi")}
    assert set(verdicts.groupby("pair_id")["rater"].nunique()) == {2}
    for path in paths:
        path.write_text("model_a,model_b,winner\ngpt,olmo,model_a\n")
    with pytest.raises(StudyError, match="pairs of different files would get the same numbers"):
        read(paths)


def test_equal_ids_with_different_prompts_are_refused(tmp_path):
    paths = [tmp_path / "news.csv", tmp_path / "wiki.csv"]
    for path in paths:
        rows = [f"{n},{path.stem} {n},gpt,olmo,{path.stem}_rater,gpt" for n in range(9)]
        path.write_text("\n".join(["id,prompt,model_a,model_b,annotator,winner", *rows]))
    with pytest.raises(StudyError, match="'0' has more than one prompt_id"):
        read(paths)


def test_unnamed_raters_of_several_files_are_numbered(tmp_path):
    paths = [tmp_path / "ann.csv", tmp_path / "bob.csv"]
    for path in paths:
        rows = [f"{n},gpt,olmo,gpt" for n in range(9)]
        path.write_text("\n".join(["item,model_a,model_b,winner", *rows]))
    verdicts = read(paths, columns={"rater": ""})
    assert set(verdicts.groupby("pair_id")["rater"].nunique()) == {2}


def test_remedies_in_errors_work_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("v.csv").write_text("Old,New,Picked one,Q,Who\ngpt,olmo,A,q1,ann\ngpt,olmo,tie,q2,ann\n")
    names = ("method_a", "method_b")
    with pytest.raises(StudyError) as error:
        report(Path("v.csv"))
    assert all(f"--set columns.{name}=" in str(error.value) for name in names)
    options = [f"columns.{name}" for name in ("method_a=Old", "method_b=New", "pair_id=Q", "rater=Who")]
    written = report(Path("v.csv"), overrides=options)
    assert list(pd.read_csv(written.folder / "csv" / "verdicts.csv")["verdict"]) == ["gpt", "tie"]


CELLS = [("top-p" if n == 5 else "GUARD", "tie" if n % 2 else "top-p") for n in range(6)]
WIDE = ["prompt,Anna,Ben", *(f"p{n},{','.join(cells)}" for n, cells in enumerate(CELLS))]
LONG = ["prompt,rater,preferred"]
LONG += [f"p{n},{who},{word}" for n, cells in enumerate(CELLS) for who, word in zip("ab", cells, strict=True)]
NO_TIES = [line.replace("tie", "GUARD") for line in WIDE]


@pytest.mark.parametrize(
    ("lines", "heads", "ties"),
    [(WIDE, "columns.headings=rater", 3), (LONG, "", 3), (NO_TIES, "columns.headings=rater", 0)],
)
def test_error_suggests_methods_that_only_cells_name(tmp_path, monkeypatch, lines, heads, ties):
    """Each refusal is followed word by word. Nothing is read before the methods are declared."""
    monkeypatch.chdir(tmp_path)
    Path("v.csv").write_text("\n".join(lines))
    overrides: list[str] = []
    for _ in range(3):
        try:
            written = report(Path("v.csv"), overrides=overrides)
            break
        except StudyError as error:
            words = [word.rstrip(".") for word in shlex.split(str(error))]
            overrides += [word for word in words if word == heads or word.startswith("verdicts.")]
    assert set(overrides) == {'verdicts."GUARD"=GUARD', 'verdicts."top-p"=top-p', heads} - {""}
    verdicts = pd.read_csv(written.folder / "csv" / "verdicts.csv")
    assert Counter(verdicts["verdict"]) == +Counter({"GUARD": 8 - ties, "tie": ties, "top-p": 4})
    [row] = json.loads((written.folder / "report.json").read_text())["tables"]["win_shares"]
    assert (row["unit"], row["units"]) == ("prompt", 6)


def test_error_suggests_no_prompts_or_raters_as_methods():
    """Two prompts and two raters are two names each, too."""
    wide = pd.DataFrame({"prompt": ["p1", "p2"], "Anna": ["GUARD", "GUARD"], "Ben": ["top-p", "tie"]})
    long = pd.DataFrame({"prompt": ["p1", "p2"], "rater": ["Anna", "Ben"], "preferred": ["tie", "GUARD"]})
    for table in (wide, long):
        message = refusal(table)
        assert "which methods were compared" in message
        assert "are the methods, write" not in message


@pytest.mark.parametrize("words", [("yes", "no"), ("1", "2"), ("x", "y", "z")])
def test_error_suggests_only_names_as_methods(words):
    table = pd.DataFrame({"prompt": list("abcdef"), "preferred": (words * 3)[:6]})
    assert "are the methods, write" not in refusal(table)
