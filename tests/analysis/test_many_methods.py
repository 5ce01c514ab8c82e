"""A report on three or more methods: the ranking first, a matrix, a table to search, little on disk."""

import csv
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from html_page import Page

from analysis.reports.answer import answer
from analysis.reports.build import write_report
from analysis.reports.context import Context
from analysis.reports.sections import comparisons
from analysis.results.ranking import ranking_rows
from analysis.results.shares import share_rows
from analysis.verdicts.tidy import validate
from guard_eval.cli.commands import report
from guard_eval.errors import StudyError

EVIL = "<script>alert(1)</script>"


def verdicts(quality, *, prompts=30, kind="person", raters=("ann",), seed=0, criteria=("fluency",)):
    """Every two methods compared on every prompt; the smaller a method's number the better it may be."""
    rng, rows = np.random.default_rng(seed), []
    names = [f"m{place}" for place in range(len(quality))]
    for prompt in range(prompts):
        own = np.asarray(quality) + 0.5 * rng.normal(size=len(quality))
        for i, j in combinations(range(len(quality)), 2):
            for rater in raters:
                for criterion in criteria:
                    gap = own[i] - own[j] + rng.normal()
                    verdict = names[i] if gap > 0.3 else names[j] if gap < -0.3 else "tie"
                    ids = (f"p{prompt}-{i}-{j}", f"d{prompt % 2}", f"q{prompt}")
                    rows.append((*ids, names[i], names[j], rater, kind, criterion, verdict))
    columns = ["pair_id", "dataset", "prompt_id", "method_a", "method_b", "rater", "rater_kind", "criterion"]
    return validate(pd.DataFrame(rows, columns=[*columns, "verdict"]))


def paragraph(frame):
    rows, rankings = share_rows(frame), ranking_rows(frame, replicates=50)
    return answer(rows, alpha=0.05, exploratory=False, rankings=rankings).replace("\u00a0", " ")


def test_the_paragraph_says_who_leads_and_who_comes_last():
    text = paragraph(verdicts((3.0, 0.0, 0.0, 0.0, -3.0)))
    assert "1 person compared 300 pairs of continuations by 5 methods in 10 comparisons." in text
    assert "On fluency m0 leads, ahead of all others; m4 comes last (any difference: p < .001)." in text
    assert "show a difference after Holm's correction: see Comparisons." in text
    assert "m1 against" not in text
    assert "The answer holds for these raters, and for no other rater." in text  # of one nobody can tell


def test_the_paragraph_points_to_no_section_that_is_missing():
    rows = share_rows(verdicts((1.0, 0.0, -1.0)))
    text = answer(rows, alpha=0.05, exploratory=False, sensitivity=False)
    assert "Sensitivity" not in text
    assert "The answer holds for these raters, and for no other rater." in text


def test_the_paragraph_says_who_cannot_be_told_apart_from_the_first():
    text = paragraph(verdicts((2.0, 2.0, 0.0, 0.0, -2.0), seed=4))
    assert "leads and cannot be told apart from m" in text
    assert "m4 comes last" in text


def test_a_comparison_of_few_prompts_is_not_said_to_have_shown_nothing():
    """Two prompts give p ≥ .5 each, whatever is said of them: none of ten comparisons could show anything."""
    frame = verdicts((3.0, 1.0, 0.0, -1.0, -3.0), prompts=2)
    assert "10 of them rest on too few prompts that favour a method to show one." in paragraph(frame)
    assert "too few" not in paragraph(verdicts((3.0, 0.0, 0.0, 0.0, -3.0)))


def test_methods_that_are_alike_have_no_leader():
    text = paragraph(verdicts((0.0,) * 5, seed=2))
    none = "On fluency there is no evidence that one of 5 methods is better than another over all comparisons"
    assert f"{none} (any difference: p" in text
    assert "leads" not in text


def test_a_circle_is_not_denied():
    """Each is preferred to the next in 27 of 30 pairs: no method is the best, and they do differ."""
    circle = (("m0", "m1"), ("m1", "m2"), ("m2", "m0"))
    rows = [(f"{a}{i}", a, b, a if i < 27 else b) for a, b in circle for i in range(30)]
    frame = validate(
        pd.DataFrame(rows, columns=["pair_id", "method_a", "method_b", "verdict"]).assign(
            dataset="d", rater="ann", criterion="fluency"
        )
    )
    text = paragraph(frame)
    assert "no evidence of any difference" not in text
    assert "no evidence that one of 3 methods is better than another over all comparisons" in text
    assert text.count(" was preferred ") == 3


def test_three_methods_have_their_comparisons_in_words_too():
    text = paragraph(verdicts((2.0, 0.0, -2.0)))
    assert "On fluency m0 leads, ahead of all others; m2 comes last" in text
    assert "m0 was preferred to m1 on fluency (win share" in text


def test_a_method_that_never_loses_leads():
    frame = verdicts((0.0, 0.0, 0.0), prompts=30)
    frame.loc[frame["method_a"] == "m0", "verdict"] = "m0"
    assert ranking_rows(frame, replicates=50)[0].ranking.estimate.strengths is None
    assert "On fluency m0 leads, ahead of all others" in paragraph(frame)


def test_each_judge_has_its_ranking():
    one = verdicts((3.0, 0.0, -3.0), kind="model", raters=("gpt",))
    other = verdicts((-3.0, 0.0, 3.0), kind="model", raters=("llama",))
    text = paragraph(pd.concat([one, other], ignore_index=True))
    assert text.index("The judge gpt") < text.index("On fluency m0 leads") < text.index("The judge llama")
    assert "On fluency m2 leads" in text[text.index("The judge llama") :]


def test_the_matrix_by_hand():
    rows = []
    for pair in range(20):  # a beats b in 15 of 20; b and c tie; a and c are never compared
        rows.append((f"ab{pair}", "a", "b", "a" if pair < 15 else "b"))
        rows.append((f"bc{pair}", "b", "c", "tie" if pair else "b"))
    frame = pd.DataFrame(rows, columns=["pair_id", "method_a", "method_b", "verdict"])
    frame = validate(frame.assign(dataset="d", rater="ann", criterion="fluency"))
    matrix, table = comparisons.section(share_rows(frame), ranking_rows(frame, replicates=20)).parts
    assert [row[0][2:] for row in matrix.rows] == ["a", "b", "c"]
    # p of 15 against 5 is .041, Holm's of two .083: no star; 52.5 % is shown as 52
    assert [row[1:] for row in matrix.rows] == [("", "75", "·"), ("25", "", "52"), ("·", "48", "")]
    assert matrix.shades[0, 2] == "ahead-3"
    assert matrix.shades[1, 1] == "behind-3"
    assert matrix.shades[1, 3] == "level"
    assert [row[:2] for row in table.rows] == [("a", "b"), ("b", "c")]


def test_stars_are_of_corrected_p():
    rows = share_rows(verdicts((3.0, 0.0, -3.0)))
    marks = {comparisons._stars(row) for row in rows if row.dataset is None}
    assert marks == {"***"}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    frame = verdicts(np.linspace(1.5, -1.5, 12), prompts=12)
    return folder, write_report(frame.replace({"m3": EVIL}), folder, Context(name="many"))


def test_many_methods_make_few_files_and_every_comparison_is_in_the_csv(many):
    folder, made = many
    assert len(made.paths) <= 20
    with (folder / "csv" / "win_shares.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 66
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert page.index('id="ranking"') < page.index('id="comparisons"')
    assert 'id="sensitivity"' not in page
    assert "--compare A B" in page


def test_the_one_script_is_the_one_the_policy_names(many):
    page = (many[0] / "index.html").read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert EVIL not in page
    found = Page(page)
    (policy,) = [one["content"] for tag, one in found.tags if tag == "meta" and "http-equiv" in one]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_one_comparison_in_full(tmp_path):
    path = tmp_path / "v.csv"
    verdicts((1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5), prompts=8).to_csv(path, index=False)
    made = report(path, tmp_path / "r", compare=("m5", "m2"))
    page = made.paths[0].read_text(encoding="utf-8")
    assert 'id="sensitivity"' in page
    assert "--compare m5 m2" in page
    with (tmp_path / "r" / "csv" / "sensitivity.csv").open(encoding="utf-8", newline="") as file:
        assert {(row["method_a"], row["method_b"]) for row in csv.DictReader(file)} == {("m2", "m5")}
    with (tmp_path / "r" / "csv" / "win_shares.csv").open(encoding="utf-8", newline="") as file:
        datasets = [row["dataset"] for row in csv.DictReader(file)]
    assert (datasets.count("d0"), datasets.count("all datasets")) == (1, 28)
    with pytest.raises(StudyError, match="'m5' and 'm9' are not compared; name two of the methods: m0, m1"):
        report(path, tmp_path / "r", compare=("m5", "m9"))


def test_two_comparisons_of_four_methods_are_no_ranking(tmp_path):
    frame = verdicts((1.0, 0.0, 0.0, -1.0))
    kept = frame[frame["pair_id"].str.endswith(("0-1", "2-3"))]
    write_report(kept, tmp_path, Context(name="apart"))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'id="shares"' in page
    assert 'id="ranking"' not in page


@pytest.mark.slow
def test_the_table_sorts_and_filters_in_a_browser(many):
    playwright = pytest.importorskip("playwright.sync_api")
    from app_browser import CHROMIUM

    with playwright.sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for width in (390, 1280, 1920):
            page = browser.new_page(viewport={"width": width, "height": 1000})
            errors = []
            page.on("console", lambda message, found=errors: found.append(message.text))
            page.on("pageerror", lambda error, found=errors: found.append(str(error)))
            page.goto((many[0] / "index.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.get_by_text("All 66 comparisons").click()
            page.get_by_role("searchbox").fill("m11 m0")
            rows = page.locator("table.sortable tbody tr:visible")
            assert rows.count() == 1
            page.get_by_role("searchbox").fill("")
            page.get_by_role("button", name="Win share").click()
            cells = page.locator("table.sortable tbody tr td:nth-child(7)").all_inner_texts()
            shares = [float(cell.split("\u00a0")[0]) for cell in cells]
            assert shares == sorted(shares)
            assert len(shares) == 66
            page.get_by_role("button", name="Win share").click()
            cells = page.locator("table.sortable tbody tr td:nth-child(7)").all_inner_texts()
            assert [float(cell.split("\u00a0")[0]) for cell in cells] == sorted(shares, reverse=True)
            assert errors == []
            if width > 390:  # no table hides a p behind its edge
                hidden = (
                    "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
                )
                page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                assert page.evaluate(f"{hidden}.length") == 0
            page.close()
        browser.close()
