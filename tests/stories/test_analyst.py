"""An analyst makes a report and a paper from a table of verdicts, on the command line and in a notebook."""

import csv
import html
import json
from pathlib import Path

import pandas as pd
import pytest

from analysis import agreement, ranking, read, report, shares
from guard_eval import Greedy, Guard, generate, load_model, measure

pytestmark = pytest.mark.slow

PAIRS = 12
P = 2 * 34 / 2**PAIRS
"""By hand: nine pairs score 2 for `new` and one 1, two score 2 and 1 for `old`. Patterns with a sum of at
least 16 have flipped at most 3 of 22: none (1), a one (2), a two or both ones (11), a two and a one (20); and
as many on the other side."""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write two raters' verdicts in the format of a German Excel."""
    monkeypatch.chdir(tmp_path)
    lines = ["sep=;", "pair_id;dataset;method_a;method_b;rater;criterion;verdict"]
    for pair in range(PAIRS):
        better = "new" if pair < 10 else "old"
        other = "tie" if pair in {0, 11} else better
        lines += [f"p{pair};news;new;old;ann;quality;{better}", f"p{pair};news;new;old;ben;quality;{other}"]
    Path("judged.csv").write_text("\n".join(lines))
    return Path("judged.csv")


def test_verdict_table_gives_a_report_and_a_paper(run, table):
    arguments = ("report", "judged.csv", "--set", "rater_kind=person", "--output", "out")
    ran = run(*arguments, "--paper", "--set", 'family=["quality"]')
    assert ran.code == 0, ran
    assert "new was preferred to old on quality (83\u00a0%)" in ran.out
    assert not Path("judged-report").exists()
    with Path("out/csv/win_shares.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (float(row["win_share"]), float(row["p"])) == (pytest.approx(20 / 24), pytest.approx(P))
    assert "exact sign-flip test over pairs" in row["method"]
    assert "p~=~.017, n = 12~pairs, 24~ratings" in Path("out/paper/sentence.tex").read_text(encoding="utf-8")
    methods = Path("out/paper/methods.tex").read_text(encoding="utf-8")
    assert "Declared on the command line: family = " in methods
    assert json.loads(Path("out/report.json").read_text(encoding="utf-8"))["tables"]["sensitivity"]
    judged = run("report", "judged.csv", "--set", "rater_kind=model", "--output", "out")  # over the first one
    assert "The judge ben preferred new to old on quality (83\u00a0%)" in judged.out
    planned = run("power", "--share", "0.8", "--raters", "2", "--from", "judged.csv")
    assert planned.code == 0, planned


def test_notebook_generates_texts_and_analyses_verdicts(table):
    model = load_model("bundled")
    texts = [
        generate(["Once upon a time", "The dog"], strategy, model, max_new_tokens=9)
        for strategy in (Greedy(), Guard())
    ]
    scores = measure(*texts, metrics=["length", "diversity"], baseline="greedy")
    assert set(scores.to_frame()["strategy"]) == {"greedy", "guard"}
    assert {row.strategy for row in scores.differences} == {"guard"}

    verdicts = read(table, rater_kind="person")
    assert shares(verdicts)["p"].item() == pytest.approx(P)
    assert agreement(verdicts)["raw_agreement"].item() == pytest.approx(10 / 12)
    with pytest.warns(UserWarning, match="ranking has no rows: fewer than three methods are compared"):
        assert ranking(verdicts).empty
    third = verdicts.assign(method_a="newer", verdict=verdicts["verdict"].replace("new", "newer"))
    third["pair_id"] += "-newer"
    ranked = ranking(read(pd.concat([verdicts, third])))
    assert set(ranked["method"]) == {"new", "newer", "old"}
    written = report(verdicts, "report", question="Is <new> better?")
    assert "<strong>Is &lt;new&gt; better?</strong>" in written._repr_html_()
    assert f"<p>{html.escape(written.summary)}</p>" in written._repr_html_()
    assert "index.html" not in repr(written)
    assert "new was preferred to old" in Path("report/report.md").read_text(encoding="utf-8")
