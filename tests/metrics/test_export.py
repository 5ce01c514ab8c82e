"""Results as files: figures by hand, hostile names in every format, the paper's bold figures."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import asdict, replace

import pytest
from html_page import Page

from guard_eval.metrics.export import metrics_page, results_json, score_table, write_results
from guard_eval.metrics.scores import OVERALL, Difference, Results, Score, closest_to_human, figure
from guard_eval.texts.generations import HUMAN

FORMULA = "=cmd|' /C calc'!A0"
HOSTILE = [
    FORMULA,
    "<script>alert(1)</script>",
    r"\input{x}",
    "a|b",
    "[0pt] `code` $x$ 100% #1 & ~ ^",
    "line\n\n\\end{table*}\r\n% &",
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }} {% raw %} 漢字 é \ud800 \x00 \x1b",
    "*star* _em_ [a](http://x) www.x.y http://x",
    "@SUM(1)",
    "-1+1",
    "\t=1",
]


def score(metric="diversity", value=1.0, *, dataset="wikitext", strategy="guard", **other):
    return Score(metric=metric, dataset=dataset, strategy=strategy, value=value, **other)


def difference(**changes):
    fields = {
        "metric": "diversity",
        "dataset": "wikitext",
        "strategy": "guard",
        "baseline": "cs",
        "value": 1.5,
        "low": -0.25,
        "high": 3.0,
        "level": 0.95,
        "p_value": 0.00001,
        "p_holm": 0.0421,
        "family": 4,
        "n": 90,
        "method": "paired bootstrap",
    }
    return Difference(**(fields | changes))


RESULTS = Results(
    scores=(
        score(
            value=92.861, low=92.0, high=93.5, n=100, counts={"empty": 3, "truncated": 1}, signature="simctg"
        ),
        score(value=89.5, strategy="cs", n=90, note="No interval: too few prompts.", signature="simctg"),
        score(value=93.84, strategy=HUMAN, n=100, signature="simctg"),
        score("coherence", -2.61, n=97, signature="opt"),
        score("coherence", None, strategy="cs", note="No text has a word", signature="opt"),
        score("coherence", -2.43, strategy=HUMAN, n=100, signature="opt"),
        score("diversity", 0.004, dataset="wikinews", n=5, signature="simctg"),
    ),
    differences=(difference(), difference(metric="coherence", value=None, p_value=None, p_holm=None)),
    settings={"seed": 7, "featuriser": "gpt2", "cut": None},
    speed={("wikitext", "guard"): "8 rows on H200"},
    warnings=("Two batches differ.",),
)

NASTY = Results(
    scores=tuple(
        score(
            value=float(index), dataset=name, strategy=name, note=name, counts={name: 1}, signature=name, n=1
        )
        for index, name in enumerate(HOSTILE)
    ),
    differences=tuple(
        difference(dataset=name, strategy=name, baseline=name, method=name) for name in HOSTILE
    ),
    settings={name: name for name in HOSTILE},
    speed={(name, name): name for name in HOSTILE},
    warnings=tuple(HOSTILE),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a function that writes results, and returns the text of one of the files."""

    def write(results, name):
        folder = tmp_path_factory.mktemp("metrics")
        write_results(results, folder)
        return (folder / name).read_text(encoding="utf-8")

    return write


def _rows(text):
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_one_table_has_every_metric_that_was_taken():
    table = score_table(RESULTS.scores)
    assert table.columns == ("Dataset", "Strategy", "Texts", "Div. (%)", "Coh. (nats)")
    assert table.rows == (
        ("wikitext", "guard", 100, "92.86*", "−2.61*"),
        ("wikitext", "cs", 90, "89.50", "–"),
        ("wikitext", HUMAN, 100, "93.84", "−2.43"),
        ("wikinews", "guard", 5, "0.00", "–"),
    )


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("diversity", 92.861, "92.86"),
        ("coherence", -2.4349, "-2.43"),
        ("coherence", -0.001, "0.00"),
        ("words", 175.64535768645356, "175.6"),
        ("tokens_per_second", 1234.5678, "1235"),
        ("diversity", None, "–"),
        ("diversity", float("nan"), "–"),
        ("perplexity", float("inf"), "–"),
    ],
)
def test_figures(metric, value, shown):
    assert figure(metric, value) == shown


# tab:ablation_resultglacs, Wikitext: Div., MAUVE, Coh., BERT-Sc.
PAPER = {
    "Greedy": (16.97, 48.28, -0.78, 81.45),
    "Beam (5)": (14.42, 26.39, -0.77, 81.20),
    "Temp. (0.9)": (84.81, 92.85, -2.43, 81.86),
    "Top-k (50)": (82.69, 88.97, -1.98, 80.64),
    "Top-p (0.95)": (82.47, 86.37, -2.11, 81.50),
    "Typical": (69.54, 81.57, -1.78, 81.34),
    "CD": (72.70, 79.76, -2.61, 81.72),
    "AD": (87.19, 92.20, -2.51, 81.83),
    "CS (5,0.6)": (72.08, 80.52, -1.43, 81.53),
    "CS (10,0.6)": (78.68, 73.50, -1.69, 80.57),
    "ACS (q=1)": (81.57, 78.82, -1.95, 80.00),
    "GUARD": (92.86, 90.82, -2.61, 81.90),
    HUMAN: (93.84, 100.00, -2.43, 100.00),
}
COLUMNS = ("diversity", "mauve", "coherence", "bertscore")


def test_the_papers_bold_figures():
    scores = tuple(
        score(metric, values[index], strategy=name)
        for index, metric in enumerate(COLUMNS)
        for name, values in PAPER.items()
    )
    # The paper sets AD's MAUVE of 92.20 in bold, though Temp.'s 92.85 is nearer to 100: by its own caption
    # ("closest to human") that is a slip, and Temp. is what we highlight.
    assert closest_to_human(scores) == {
        ("diversity", "wikitext", "GUARD"),
        ("mauve", "wikitext", "Temp. (0.9)"),
        ("coherence", "wikitext", "Temp. (0.9)"),
        ("bertscore", "wikitext", "GUARD"),
    }


def test_closest_ties_as_shown_on_either_side_of_the_human_value():
    scores = (
        score(value=90.0, strategy=HUMAN),
        score(value=89.0, strategy="below"),
        score(value=91.001, strategy="above"),  # shown as 91.00, as far away as 89.00
        score(value=88.994, strategy="farther"),  # shown as 88.99
        score(value=None, strategy="undefined"),
        score(value=float("inf"), strategy="infinite"),
    )
    assert closest_to_human(scores) == {
        ("diversity", "wikitext", "below"),
        ("diversity", "wikitext", "above"),
    }


def test_the_long_csvs_have_every_field(written):
    first, second = _rows(written(RESULTS, "scores.csv"))[:2]
    assert first == {
        "metric": "diversity",
        "dataset": "wikitext",
        "strategy": "guard",
        "value": "92.861",
        "low": "92.0",
        "high": "93.5",
        "level": "0.95",
        "n": "100",
        "counts": "empty: 3; truncated: 1",
        "note": "",
        "signature": "simctg",
        "runs": "1",
        "run_sd": "",
    }
    assert (second["low"], second["note"]) == ("", "No interval: too few prompts.")
    one, two = _rows(written(RESULTS, "differences.csv"))
    assert one == {name: str(value) for name, value in asdict(difference()).items()}
    assert (two["value"], two["p_holm"]) == ("", "")


def test_an_earlier_runs_differences_are_removed(tmp_path):
    write_results(RESULTS, tmp_path)
    write_results(replace(RESULTS, differences=()), tmp_path)
    assert not (tmp_path / "differences.csv").exists()


@pytest.mark.parametrize("name", ["scores.csv", "differences.csv"])
def test_no_csv_has_a_formula(written, name):
    rows = _rows(written(NASTY, name))
    assert len(rows) == len(HOSTILE)
    assert rows[0]["strategy"] == f"'{FORMULA}"
    for row in rows:
        words = [cell for name, cell in row.items() if name not in {"value", "low", "high"}]
        assert not [cell for cell in words if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert [row["strategy"] for row in rows][3] == "a|b"


def _json(results):
    def refuse(name):
        raise AssertionError(name)

    return json.loads(results_json(results), parse_constant=refuse)


@pytest.mark.parametrize("results", [RESULTS, NASTY], ids=["plain", "nasty"])
def test_json_there_and_back(results):
    read = _json(results)
    assert tuple(Score(**row) for row in read["scores"]) == results.scores
    assert tuple(Difference(**row) for row in read["differences"]) == results.differences
    assert read["settings"] == dict(results.settings)
    assert {(row["dataset"], row["strategy"]): row["speed"] for row in read["speed"]} == results.speed
    assert tuple(read["warnings"]) == results.warnings
    if results is RESULTS:
        assert ["diversity", "wikitext", "guard"] in read["closest_to_human"]


def test_json_never_holds_nan():
    nan = score(value=float("nan"), low=float("-inf"), high=float("inf"))
    read = _json(Results(scores=(nan,), settings={"x": float("nan")}))
    (row,) = read["scores"]
    assert (row["value"], row["low"], row["high"], read["settings"]["x"]) == (None, None, None, None)


def test_markdown_by_hand(written):
    text = written(RESULTS, "metrics.md")
    assert text.startswith("# Metrics\n\n> Two batches differ.\n\n## wikitext\n\n")
    for line in [
        "| Strategy | Texts | Div. (%) | Coh. (nats) |",
        "| --- | ---: | ---: | ---: |",
        r"| guard | 100 | 92.86\* \[92.00, 93.50\] | −2.61\* |",
        "| cs | 90 | 89.50 | – |",
        "| human | 100 | 93.84 | −2.43 |",
        "| guard | 5 | 0.00 | – |",
        r"| Div. (%) | wikitext | guard | cs | +1.50 | \[-0.25, 3.00\] | \< .001 | .042 | 90 |",
        r"| Coh. (nats) | wikitext | guard | cs | – | \[-0.25, 3.00\] | – | – | 90 |",
        "- paired bootstrap; 95 % intervals; Holm's correction over 4 tests",
        "- seed: 7",
        "- cut: –",
        "- speed of guard on wikitext: 8 rows on H200",
        r"- signature of diversity: simctg",
        "- Div. (wikitext, guard): empty: 3; truncated: 1",
        "- Div. (wikitext, cs): No interval: too few prompts",
        "- Coh. (wikitext, cs): No text has a word",
    ]:
        assert line in text.splitlines()


def test_markdown_holds_no_markup_of_others(written):
    text = written(NASTY, "metrics.md")
    for line in text.splitlines():
        if line.startswith("|"):  # as many bare pipes as the table has columns, and one
            assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) in {4, 10}
    bare = re.sub(r"\\.", "", text)  # what is left without everything escaped
    assert not re.search(r"[<`$@]|http:|www\.|\]\(", bare)
    assert "\x1b" not in text


def test_latex_has_a_table_for_each_dataset_without_intervals():
    lines = metrics_page(RESULTS, ".tex").splitlines()
    for line in [
        r"\begin{tabular}{lrrr}",
        r"Strategy & Texts & Div. (\%) & Coh. (nats) \\",
        r"guard & 100 & 92.86{*} & $-$2.61{*} \\",
        r"cs & 90 & 89.50 & -- \\",
        r"human & 100 & 93.84 & $-$2.43 \\",
        "% Two batches differ.",
        "% Div. (wikitext, guard): empty: 3; truncated: 1",
        "% seed: 7",
        "% signature of coherence: opt",
    ]:
        assert line in lines
    assert sum(line.startswith(r"\caption") for line in lines) == 3


def test_latex_comments_stay_on_their_line():
    text = metrics_page(NASTY, ".tex")
    tables, comments = text.rsplit("\\end{table*}\n", 1)
    assert all(line.startswith("% ") for line in comments.splitlines())
    assert "\\input{x}" not in tables


def test_latex_compiles(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not on the PATH; run: apt-get install texlive-latex-recommended")
    names = ["x" * 20_000, *("".join(map(chr, range(start, start + 16))) for start in range(0xA0, 0x250, 16))]
    more = Results(scores=(*NASTY.scores, *(score(strategy=name) for name in names), score(strategy=HUMAN)))
    document = r"\documentclass{article}\usepackage{booktabs,array,graphicx}\begin{document}\input{%s}"
    for name, results in (("plain", RESULTS), ("nasty", NASTY), ("more", more)):
        (tmp_path / f"{name}.table.tex").write_text(metrics_page(results, ".tex"), encoding="utf-8")
        (tmp_path / f"{name}.tex").write_text(document % f"{name}.table" + r"\end{document}")
        done = subprocess.run(
            ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]


def test_html_by_hand(written):
    text = written(RESULTS, "metrics.html")
    page = Page(text)
    shown = " ".join(" ".join(page.texts).split())
    for words in [
        "wikitext",
        "92.86* [92.00, 93.50]",
        "−2.61*",
        "empty: 3; truncated: 1",
        "No interval: too few prompts",
        "* closest to the human value of its dataset",
        "In brackets: the 95 % interval.",
        "+1.50 [-0.25, 3.00] < .001 .042 90",
        "Holm's correction over 4 tests",
        "seed 7",
        "speed of guard on wikitext 8 rows on H200",
        "signature of coherence opt",
        "Two batches differ.",
    ]:
        assert words in shown
    assert "prefers-color-scheme: dark" in text
    links = [value for _, held in page.tags for name, value in held.items() if not name.startswith("xmlns")]
    assert not any(str(value).startswith(("http", "//")) for value in links)


def test_html_holds_no_markup_of_others(written):
    text = written(NASTY, "metrics.html")
    page = Page(text)
    names = [name for name, _ in page.tags]
    assert not {"script", "img"} & {*names}
    assert names.count("figure") == names.count("svg") == len(HOSTILE)
    assert not [name for _, held in page.tags for name in held if name.startswith("on")]
    ids = [held["id"] for _, held in page.tags if "id" in held]
    assert len(ids) == len(set(ids))
    assert "{{ 7*7 }}" in text  # a name is no template
    assert "\x1b" not in text
    assert "\x00" not in text


def test_figures_lie_beside_the_page(tmp_path):
    write_results(RESULTS, tmp_path)
    files = {path.name for path in (tmp_path / "figures").iterdir()}
    assert files == {"diversity-1.svg", "diversity-2.svg", "coherence-1.svg", "diversity-coherence-1.svg"}
    whole = [replace(each, dataset=OVERALL) for each in RESULTS.scores if each.dataset == "wikitext"]
    write_results(Results(scores=(*RESULTS.scores, *whole)), tmp_path / "both")
    files = {path.name for path in (tmp_path / "both" / "figures").iterdir()}
    planes = {"diversity-coherence-1.svg", "diversity-coherence-3.svg"}
    assert files == {"diversity.svg", "coherence.svg", *planes}
