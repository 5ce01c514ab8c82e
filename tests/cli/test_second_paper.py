"""Su and Xu's published human study, by report alone: the figures of docs/second_paper.md."""

import csv
import re
from pathlib import Path

import pytest
from scipy.stats import binomtest

from analysis.reports.command import report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "judgments" / "cs_vs_cd_human.csv"
PAGE = ROOT / "docs" / "second_paper.md"
PUBLISHED = {  # printed in the README of yxuansu/Contrastive_Search_versus_Contrastive_Decoding, in %
    "wikinews": (68.5, 2.0, 29.5),
    "wikitext": (65.0, 2.0, 33.0),
    "book": (67.0, 1.0, 32.0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the reports for these raters, and for raters like them."""
    if not DATA.exists():
        pytest.skip(f"needs {DATA.name}, which is not published with this project")
    folder = tmp_path_factory.mktemp("second")
    report(DATA, output=folder / "these", rater_kind="person")
    report(DATA, output=folder / "population", rater_kind="person", overrides=["raters=random"])
    return folder


def rows(folder, raters, name="win_shares"):
    with (folder / raters / "csv" / f"{name}.csv").open(encoding="utf-8") as file:
        return {row.get("dataset", ""): row for row in csv.DictReader(file)}


def page_table(heading):
    """Return the rows of the table below a heading of the page, by their first cells."""
    below = PAGE.read_text(encoding="utf-8").split(f"## {heading}")[1]
    lines = re.findall(r"(?:^\|.*\n)+", below, re.MULTILINE)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def test_the_published_table_to_the_last_digit(folder):
    found = rows(folder, "these")
    for dataset, published in PUBLISHED.items():
        row = found[dataset]
        assert row["method_a"] == "contrastive_decoding"
        shares = [int(row[name]) / int(row["verdicts"]) * 100 for name in ("losses", "ties", "wins")]
        assert shares == pytest.approx(published)
        assert page_table("The published table")[dataset] == [
            *(f"{share:.1f}" for share in published),
            " / ".join(f"{share:.1f}" for share in published),
        ]


def p_of(text):
    return f"{float(text):.1e}" if float(text) < 0.0001 else re.sub("^0", "", f"{float(text):.2g}")


def interval(row):
    """Return the interval of contrastive search, the second method."""
    return f"{100 * (1 - float(row['high'])):.1f} to {100 * (1 - float(row['low'])):.1f}"


def test_the_pages_figures_are_the_reports(folder):
    these, population = rows(folder, "these"), rows(folder, "population")
    for dataset, (share, own, p, others, p_others) in page_table("What the report adds").items():
        row, other = these[dataset], population[dataset]
        assert share == f"{100 * (1 - float(row['win_share'])):.1f}"
        assert (own, p) == (interval(row), p_of(row["p"]))
        if others == "the same":
            assert (other["low"], other["p"]) == (row["low"], row["p"])
        else:
            assert float(p_others) == pytest.approx(float(other["p"]), rel=0.02)
            assert others == interval(other)
    agreement = rows(folder, "these", "agreement")[""]
    kappa = [float(agreement[name]) for name in ("fleiss_kappa", "kappa_low", "kappa_high")]
    assert kappa == pytest.approx([0.04, -0.03, 0.11], abs=0.005)
    assert float(agreement["krippendorff_alpha_ordinal"]) == pytest.approx(0.04, abs=0.005)
    assert float(agreement["raw_agreement"]) == pytest.approx(0.56, abs=0.005)


def test_the_binomial_test_beside(folder):
    # 189 annotations for contrastive decoding and 401 for contrastive search, which the README's shares give.
    counts = [sum(round(2 * shares[side]) for shares in PUBLISHED.values()) for side in (2, 0)]
    assert counts == [189, 401]
    expected = binomtest(189, 590).pvalue
    assert float(rows(folder, "these")["all datasets"]["p_pooled_binomial"]) == pytest.approx(
        expected, rel=1e-9
    )
    assert f"{expected:.1e}" in PAGE.read_text(encoding="utf-8")
