"""The report gives the published figures of Su and Xu's human study."""

from pathlib import Path

import pytest
from read_files import read_csv

from analysis.reports.command import report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "judgments" / "cs_vs_cd_human.csv"
PUBLISHED = {  # printed in the README of yxuansu/Contrastive_Search_versus_Contrastive_Decoding, in %
    "wikinews": (68.5, 2.0, 29.5),
    "wikitext": (65.0, 2.0, 33.0),
    "book": (67.0, 1.0, 32.0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the report of the published annotations."""
    if not DATA.exists():
        pytest.skip(f"needs {DATA.name}, which is not published with this project")
    folder = tmp_path_factory.mktemp("second")
    report(DATA, output=folder / "these", overrides=["rater_kind=person"])
    return folder


def rows(folder, raters, name="win_shares"):
    return {row.get("dataset", ""): row for row in read_csv(folder / raters / "csv" / f"{name}.csv")}


def test_shares_equal_those_of_the_second_paper(folder):
    result = rows(folder, "these")
    for dataset, published in PUBLISHED.items():
        row = result[dataset]
        assert row["method_a"] == "contrastive_decoding"
        shares = [int(row[name]) / int(row["verdicts"]) * 100 for name in ("losses", "ties", "wins")]
        assert shares == pytest.approx(published)


def test_kappa_of_the_second_paper_is_near_zero(folder):
    agreement = rows(folder, "these", "agreement")[""]
    kappa = [float(agreement[name]) for name in ("fleiss_kappa", "kappa_low", "kappa_high")]
    assert kappa == pytest.approx([0.04, -0.03, 0.11], abs=0.005)
    assert float(agreement["krippendorff_alpha_ordinal"]) == pytest.approx(0.04, abs=0.005)
    assert float(agreement["raw_agreement"]) == pytest.approx(0.56, abs=0.005)
