"""`guard-eval audit`: the paper's table as its reader audits it."""

TOP = """opponent,criterion,guard_pct,opponent_pct,tie_pct
top-k,fluency,76.7,23.3,0
top-k,informativeness,78.3,21.7,0
"""


def test_the_papers_table(run, tmp_path):
    (tmp_path / "shares.csv").write_text(TOP)
    ran = run("audit", "shares.csv", "--n", 150)
    assert ran.code == 0, ran
    assert "2 row(s) of percentages: guard_pct, opponent_pct, tie_pct; 1 decimal(s)" in ran.out
    assert "78.3 impossible, nearest" in " ".join(ran.out.split())
    assert "1 of 2 rows cannot be shares of the n stated." in ran.out
    assert "n that fit every row, up to 1000: 60, 120, " in ran.out


def test_a_total_that_is_none_and_a_name_that_is_no_markup(run, tmp_path):
    (tmp_path / "shares.csv").write_text("name,won,lost\n[bold]x,40,50\n")
    ran = run("audit", "shares.csv", "--n", 5000, "--limit", 10)
    assert ran.code == 0, ran
    assert "total 90, not 100" in " ".join(ran.out.split())
    assert "[bold]x" in ran.out
    assert "add --separate" in ran.out
    assert "finer than the rounding" in ran.out


def test_a_table_that_is_none(run, tmp_path):
    (tmp_path / "shares.csv").write_text("name,won\na,x\n")
    assert "has no column of numbers from 0 to 100" in run("audit", "shares.csv", "--n", 150).refused()
