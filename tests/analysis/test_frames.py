"""The analysis from Python: frames, figures and a report, by the names of the commands, loaded when used."""

import subprocess
import sys

import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis import agreement, figures, ranking, read, shares
from guard_eval.errors import StudyError

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"


@pytest.fixture
def path(tmp_path):
    rows = [
        f"{pair},d,{a},{b},{rater},{criterion},{a if pair % 5 else b}"
        for a, b in (("x", "y"), ("y", "z"), ("x", "z"))
        for pair in range(20)
        for rater in ("Ana", "Ben")
        for criterion in ("fluency", "style")
    ]
    path = tmp_path / "v.csv"
    path.write_text("\n".join((HEADER, *rows)))
    return path


def only(path, *methods):
    table = pd.read_csv(path, dtype=str)
    return table[table["method_a"].isin(methods) & table["method_b"].isin(methods)]


def test_shares_by_hand(path):
    """16 of 20 pairs for x: share .8; signs of 20 pairs, 16 to 4: p = 2 · 6196 / 2^20."""
    found = shares(only(path, "x", "y"), family=["fluency"]).set_index("criterion")
    assert found.loc["fluency", "win_share_by_item"] == pytest.approx(0.8)
    assert found.loc["fluency", "p_adjusted"] == pytest.approx(2 * 6196 / 2**20)
    assert pd.isna(found.loc["style", "p_adjusted"])
    both = shares(only(path, "x", "y")).set_index("criterion")
    assert both.loc["fluency", "p_adjusted"] == pytest.approx(2 * 2 * 6196 / 2**20)


def test_ranking_and_agreement(path):
    table = read(path)
    ranks = ranking(table, seed=3)
    assert ranks[ranks["criterion"] == "style"].sort_values("rank")["method"].tolist() == ["x", "y", "z"]
    assert ranking(only(path, "x", "y")).empty
    assert agreement(table)["raw_agreement"].tolist() == [1.0] * 6


def test_figures_are_matplotlibs(path, tmp_path):
    drawn = figures(only(path, "x", "y"), texts="translations")
    assert "shares-1" in drawn
    assert all(isinstance(figure, Figure) for figure in drawn.values())
    (axes,) = drawn["shares-1"].axes
    assert {round(float(line.get_xdata()[0]), 6) for line in axes.lines} >= {80.0, 50.0}
    axes.set_title("mine")
    drawn["shares-1"].savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"famly": ["style"]}, "no option 'famly'; the options are: .*family"),
        ({"alpha": 5}, "alpha is 5; write a number between 0 and 1"),
        ({"alpha": "0.05"}, "alpha is '0.05'"),
        ({"correction": "bonferroni"}, "correction is 'bonferroni'; write one of: holm"),
        ({"raters": "all"}, "raters is 'all'; write one of: these, population"),
        ({"family": "style"}, r"family is 'style'; write a list of results, as \['style'\]"),
        ({"family": ["colour"]}, "the family names 'colour'"),
        ({"panel": "best"}, "the panel's rule 'best' is unknown"),
    ],
)
def test_what_cannot_be_meant_is_refused(path, options, message):
    for function in (shares, agreement, ranking, figures):
        with pytest.raises(StudyError, match=message):
            function(read(path), **options)


def run(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_the_package_loads_nothing(tmp_path):
    code = (
        "import sys, analysis; print(*sorted({'pandas', 'scipy', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    assert run(code, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "import analysis.reports.build; ", "from analysis import shares; "])
def test_report_is_a_function_whatever_was_imported_before(path, tmp_path, before):
    code = f"{before}from analysis import report; print(report('{path.name}', 'out', title='T').paths[0])"
    assert run(code, tmp_path) == ["out/index.html"]
    assert '<h1 dir="auto">T</h1>' in (tmp_path / "out" / "index.html").read_text()


def test_what_is_missing_is_named():
    import analysis

    with pytest.raises(AttributeError, match="analysis has no function 'share'"):
        _ = analysis.share
