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
    "paper/figure.tex",
    "paper/sentence.txt",
    "paper/sentence.tex",
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
    assert r"two one-sided t tests, corrected by Holm over 2 results~\citep{schuirmann1987}" in methods
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
    assert (
        "on style there was no evidence that one of 3 methods is better than another over all comparisons"
        in made["paper/sentence.txt"]
    )
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


PAPER = r"""\documentclass[11pt]{article}
\usepackage[a4paper,margin=2.5cm,heightrounded]{geometry}
\setlength\columnsep{0.6cm}\flushbottom\twocolumn\sloppy
\usepackage[T1]{fontenc}\usepackage{times,natbib,array,booktabs,graphicx,textcomp,hyperref}
\begin{document}
\section{Results}
\input{sentence}

\input{methods}
\input{table}
\input{figure}
See Table~\ref{tab:verdicts} and Figure~\ref{fig:verdicts}.
\bibliographystyle{plainnat}\bibliography{references}
\end{document}
"""
"""A page as ACL's style lays it out."""
HOSTILE = [
    EVIL,
    r"\write18{touch written}^^5cinput{/etc/passwd}",
    "Grüße aus Köln: ß „x“ é",
    "Москва, декодирование",
    "解码策略比较方法" * 3,
    "😀 👩\u200d👧",
    "שלום \u202eabc\u202c العربية",
    "a,,b--c---d ?` !` << >> \"q\" 'q' \\\\[2em] \\\\* && ~~ ##",
    "guard(alpha=0.6,k=5,window=10,entropy=global,temperature=0.7)",
    "m" * 90,
    "tab\tline\nbell\x07 a\u0301 e\u0323",
]


def compiled(folder, tmp_path):
    """Return the log of a paper in which all that `folder` holds is pasted."""
    paper = tmp_path / "tex"
    shutil.copytree(folder, paper)
    (paper / "main.tex").write_text(PAPER)
    latex = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "main"]
    for command in (latex, ["bibtex", "main"], latex, latex):
        done = subprocess.run(command, check=False, cwd=paper, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stdout[-1500:].decode("utf-8", "replace")
    assert not (paper / "written").exists()
    return (paper / "main.log").read_text("utf-8", "replace")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("name", ["plain", "ranked", *HOSTILE], ids=lambda name: ascii(name)[1:13])
def test_it_compiles_as_it_is_pasted(tmp_path, name):
    """Nothing is undefined, run or too wide; a name that LaTeX lacks letters for shows its code points."""
    plain = frame(CLEAR, raters=("Ana", "Ben"))
    hostile = frame({name: "AABT" * 4, "fluency": "AAB"}, a=name, b="b")
    if name == "ranked":
        pairs = [("a", "b"), (EVIL, "b"), ("a", EVIL)]
        parts = [
            frame(CLEAR, *pair).assign(pair_id=lambda t, n=n: f"{n}-" + t["pair_id"])
            for n, pair in enumerate(pairs)
        ]
        hostile = pd.concat(parts, ignore_index=True)
    context = Context(name=name, texts=name, margin=0.1 if name == "plain" else None)
    write_report(plain if name == "plain" else hostile, tmp_path / "report", context)
    assert {f"paper/{path.name}" for path in (tmp_path / "report" / "paper").iterdir()} == set(NAMES)
    log = compiled(tmp_path / "report" / "paper", tmp_path)
    assert "undefined" not in log
    assert "(/etc" not in log
    wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
    assert max(wide, default=0) < 3


def test_what_is_pasted_is_whole_to_its_last_word():
    """A percent sign would begin a comment: the sentence's figures after the first share would be lost."""
    text = files(frame(CLEAR))["paper/sentence.tex"]
    assert not re.search(r"(?<!\\)%", text)
    assert r"(win share 93.3~\%, 95~\% CI [" in text.replace("{[}", "[")
    assert text.endswith("guard-eval 9.8).\n")


def test_a_table_takes_both_columns_where_one_would_make_it_small():
    def table(criterion, **changes):
        return files(frame({criterion: "AAB"}), **changes)["paper/table.tex"]

    assert r"\begin{table}[htbp]" in table("fluency")
    assert r"\begin{table*}[t]" in table("fluency", margin=0.1)
    assert r"\begin{figure}[htbp]" in files(frame({"fluency": "AAB"}))["paper/figure.tex"]
    assert r"\begin{figure*}[t]" in files(frame({"a criterion of many words": "AAB"}))["paper/figure.tex"]
