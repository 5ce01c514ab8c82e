"""paper/: a table, a figure, a sentence and a paragraph, whose figures are right and whose LaTeX is whole."""

import inspect
import re
import shutil
import subprocess

import pandas as pd
import pytest

from analysis.reports.build import write_report
from analysis.reports.context import Context
from analysis.reports.manuscript import _references, manuscript
from analysis.results.agreement import agreement_rows
from analysis.results.equivalence import equivalence_rows
from analysis.results.ranking import ranking_rows
from analysis.results.shares import share_rows
from analysis.verdicts.scores import ScoredVerdicts
from analysis.verdicts.tidy import validate
from guard_eval.reporting.words import p_value

NAMES = [
    "paper/table.tex",
    "paper/figure.pdf",
    "paper/sentence.txt",
    "paper/methods.tex",
    "paper/references.bib",
]
EVIL = r"50%_of {x} & \input{/etc/passwd} $y^2$ #1 ~ \end{tabular}"


def frame(verdicts, a="nmt", b="smt", kind="person", raters=("Ana",)):
    """Return a table: for each criterion a verdict a pair, A, B or T, the same by all raters."""
    rows = [
        {
            "pair_id": f"{place}",
            "dataset": "news",
            "method_a": a,
            "method_b": b,
            "rater": rater,
            "rater_kind": kind,
            "criterion": criterion,
            "verdict": {"A": a, "B": b, "T": "tie"}[letter],
        }
        for criterion, letters in verdicts.items()
        for place, letter in enumerate(letters)
        for rater in raters
    ]
    return pd.DataFrame(rows)


CLEAR = {"adequacy": "A" * 14 + "B", "fluency": "AAAABBBBTTTT"}


def files(table, **changes):
    """Return the files of paper/ for a table, with a margin where one is given."""
    context = Context(name="x", texts="translations", versions={"guard-eval": "9.8"}, **changes)
    scored = ScoredVerdicts.of(validate(table), context.planned)
    rows = share_rows(scored, planned=context.planned, alpha=context.alpha, correction=context.correction)
    near = equivalence_rows(rows, margin=context.margin) if context.margin is not None else ()
    return manuscript(rows, ranking_rows(scored, replicates=50), agreement_rows(scored), context, near)


def cells(tex):
    """Return the table's body, split at & and \\\\ as TeX does, where neither is escaped."""
    body = tex[tex.index(r"\midrule") + 8 : tex.index(r"\bottomrule")]
    return [re.split(r"(?<!\\)&", line) for line in body.strip().split("\\\\\n") if line.strip()]


def check_latex(text):
    """Braces close in order, environments too, and nothing that TeX takes for markup stands by itself."""
    depth = 0
    for sign in re.findall(r"\\.|[{}]", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    opened = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    code = "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in text.splitlines())
    assert re.findall(r"(?<!\\)_", code) == []
    assert len(re.findall(r"(?<!\\)\$", code)) % 2 == 0


def test_the_sentence_by_hand():
    """14 pairs to 1: share 14/15, p = 2 (1 + 15) / 2^15 = .00098, by Holm .00195; 4 to 4: p = 1."""
    made = files(frame(CLEAR))
    text = made["paper/sentence.txt"]
    assert list(made) == NAMES
    assert text.startswith("1 person compared")
    assert "15 pairs of translations: on adequacy nmt was preferred to smt (win share 93.3 %" in text
    assert "p = .002, n = 15 pairs, 15 ratings)" in text
    assert "on fluency there was no evidence of a difference between nmt and smt (win share 50.0 %" in text
    assert "p > .99, n = 12 pairs" in text
    assert "corrected by Holm over 2 results; guard-eval 9.8)" in text
    assert text.count("\n") == 1


def test_the_table_by_hand():
    tex = files(frame(CLEAR))["paper/table.tex"]
    check_latex(tex)
    adequacy, fluency = cells(tex)
    plain = [re.sub(r"\\textbf\{(.*)\}", r"\1", cell.strip()) for cell in adequacy]
    assert plain[:5] == ["adequacy", "93.3", "0.0", "6.7", "93.3"]
    assert plain[6] == ".002"
    assert [cell.strip() for cell in fluency][:5] == ["fluency", "33.3", "33.3", "33.3", "50.0"]
    assert r"\textgreater{}~.99" in fluency[6]
    assert r"\textbf" in adequacy[0]
    assert r"\textbf" not in fluency[0]


def test_a_margin_is_in_the_table_the_sentence_and_the_methods():
    """400 pairs, half for each: a share of .5 with error .5/√399, 4 errors from ±.1: p = 3.8e-5 alone."""
    made = files(frame({"adequacy": "AB" * 200, "fluency": "AAAB" * 100}), margin=0.1)
    adequacy, fluency = cells(made["paper/table.tex"])
    assert adequacy[7].strip() == r"equivalent (\textless{}~.001)"
    assert fluency[7].split("(")[0].strip() == r"\textbf{different"
    assert (
        "With a margin of 10 points around 50 %: adequacy is equivalent (p < .001 for equivalence)"
        in (made["paper/sentence.txt"])
    )
    methods = made["paper/methods.tex"]
    assert r"two one-{}sided t tests, corrected by Holm over 2 results~\citep{schuirmann1987}" in methods
    assert "Schuirmann" in made["paper/references.bib"]
    check_latex(made["paper/table.tex"])


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (2.4e-14, "< .001"),
        (0.00099, "< .001"),
        (0.001, ".001"),
        (0.0014, ".001"),
        (0.0495, ".0495"),
        (0.0501, ".0501"),
        (0.0996, ".10"),
        (0.99, ".99"),
        (0.9901, "> .99"),
        (1.0, "> .99"),
        (0.0, "< .001"),
    ],
)
def test_one_style_of_p(p, text):
    assert p_value(p).replace("\u00a0", " ") == text


def test_only_what_is_cited_is_referenced_and_all_of_it():
    made = files(frame(CLEAR, raters=("Ana", "Ben")))
    cited = {
        key
        for keys in re.findall(r"\\citep\{([^}]*)\}", made["paper/methods.tex"])
        for key in keys.split(",")
    }
    defined = set(re.findall(r"^@\w+\{(\w+),", made["paper/references.bib"], re.MULTILINE))
    assert cited == defined == {"pitman1937", "holm1979", "fleiss1971"}
    check_latex(made["paper/methods.tex"])
    check_latex(made["paper/references.bib"])
    alone = files(frame({"adequacy": "AAB"}), correction="bh")
    assert re.findall(r"^@\w+\{(\w+),", alone["paper/references.bib"], re.MULTILINE) == ["pitman1937"]
    assert "1.00 on adequacy and 1.00 on fluency" in made["paper/methods.tex"]
    both = files(frame(CLEAR), correction="bh")
    assert "benjamini1995" in both["paper/methods.tex"]
    assert "holm1979" not in both["paper/methods.tex"]


def test_every_work_that_can_be_cited_has_an_entry():
    code = inspect.getsource(inspect.getmodule(manuscript))
    keys = set(re.findall(r'"([a-z]+(?:19|20)\d\d)"', code))
    assert keys == set(_references())
    for entry in _references().values():
        check_latex(entry)
        assert {"author", "title", "year"} <= set(re.findall(r"^  (\w+) = ", entry, re.MULTILINE))


def test_more_methods_are_a_ranking():
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    tables = [
        frame({"fluency": "AAAAAAAAAB", "style": "ABABTTABAB"}, *pair).assign(
            pair_id=lambda t, n=n: f"{n}-" + t["pair_id"]
        )
        for n, pair in enumerate(pairs)
    ]
    made = files(pd.concat(tables, ignore_index=True))
    tex = made["paper/table.tex"]
    check_latex(tex)
    assert [row[0].strip() for row in cells(tex)] == ["a", "b", "c"]
    assert {len(row) for row in cells(tex)} == {5}
    assert "on fluency a ranks first of 3" in made["paper/sentence.txt"]
    assert "not told apart" not in made["paper/sentence.txt"].split(";")[0]
    assert "on style there was no evidence of any difference among 3 methods" in made["paper/sentence.txt"]
    assert "possible rank 1, expected share" in made["paper/sentence.txt"]
    assert "U+" not in made["paper/methods.tex"]
    for key in ("davidson1970", "mogstad2024", "pitman1937"):
        assert key in made["paper/references.bib"]


def test_groups_that_nobody_compared_have_a_ranking_each():
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "y"), ("y", "z"), ("x", "z")]
    tables = [
        frame({"fluency": "AAAAAAAAAB"}, *pair).assign(pair_id=lambda t, n=n: f"{n}-" + t["pair_id"])
        for n, pair in enumerate(pairs)
    ]
    rows = cells(files(pd.concat(tables, ignore_index=True))["paper/table.tex"])
    assert [[cell.strip()[:1] for cell in row[:2]] for row in rows] == [
        [name, rank] for name, rank in zip("abcxyz", "123123", strict=True)
    ]


@pytest.mark.parametrize("verdicts", [{"c": "A"}, {"c": "TTTT"}, {"c": "A" * 9}, {"c": "AB"}])
def test_little_to_say(verdicts):
    made = files(frame(verdicts))
    check_latex(made["paper/table.tex"])
    check_latex(made["paper/methods.tex"])
    assert "None" not in made["paper/sentence.txt"] + made["paper/table.tex"]
    assert "nan" not in made["paper/sentence.txt"] + made["paper/table.tex"]


def test_names_are_data(tmp_path):
    made = files(frame({EVIL: "AAB"}, a=EVIL, b="b\nc"), planned=((EVIL, "b\nc", EVIL),))
    check_latex(made["paper/table.tex"])
    assert r"\input" not in made["paper/table.tex"] + made["paper/methods.tex"]
    assert {len(row) for row in cells(made["paper/table.tex"])} == {7}
    assert made["paper/sentence.txt"].count("\n") == 1


def test_simulated_is_on_all_of_it():
    made = files(frame(CLEAR, kind="simulated"))
    assert made["paper/sentence.txt"].startswith("SIMULATED verdicts, evidence of nothing")
    assert r"\caption{SIMULATED." in made["paper/table.tex"]


def test_the_same_input_gives_the_same_bytes():
    first, second = (files(frame(CLEAR)) for _ in range(2))
    assert first == second
    assert first["paper/figure.pdf"].startswith(b"%PDF")
    assert b"CreationDate" not in first["paper/figure.pdf"]


@pytest.mark.slow
def test_it_lies_in_the_report_and_compiles(tmp_path):
    write_report(frame(CLEAR | {EVIL: "AAB"}), tmp_path, Context(name="x"))
    assert {f"paper/{path.name}" for path in (tmp_path / "paper").iterdir()} == set(NAMES)
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        pytest.skip("needs pdflatex")
    acl = subprocess.run(["kpsewhich", "acl.sty"], check=False, capture_output=True).returncode == 0
    head = r"\documentclass[11pt]{article}" + (r"\usepackage{acl}" if acl else r"\usepackage{natbib}")
    (tmp_path / "paper" / "all.tex").write_text(
        head + r"\usepackage[T1]{fontenc}\usepackage{array,booktabs,graphicx,textcomp}\begin{document}"
        r"\input{methods}\input{table}\includegraphics[width=\linewidth]{figure}"
        r"\bibliographystyle{"
        + ("acl_natbib" if acl else "plainnat")
        + r"}\bibliography{references}\end{document}"
    )
    for command in (["pdflatex", "-interaction=batchmode", "-halt-on-error", "all"], ["bibtex", "all"]):
        subprocess.run(command, check=True, cwd=tmp_path / "paper", capture_output=True, timeout=120)
