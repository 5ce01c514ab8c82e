"""Files with results: values computed by hand, hostile names in every format, the paper's bold scores."""

import json
import shutil
from dataclasses import asdict, replace

import pytest
from command_line import run_process
from html_page import Page
from read_files import read_csv

from analysis.replication.paper import find_published_figures
from guard_eval.metrics.export import (
    make_difference_table,
    make_score_tables,
    make_terminal_tables,
    render_metrics_page,
    write_results,
)
from guard_eval.metrics.scores import (
    OVERALL,
    Difference,
    MeasurementResult,
    Score,
    find_scores_closest_to_human,
    format_value,
)
from guard_eval.records import HUMAN

FORMULA = "=cmd|' /C calc'!A0"
HOSTILE = [
    FORMULA,
    "<script>alert(1)</script>",
    r"\input{x}",
    "a|b",
    "[0pt] `code` $x$ 100% #1 & ~ ^",
    "line\n\n\\end{table}\r\n% &",
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }} {% raw %} 漢字 é \ud800 \x00 \x1b",
    "*star* _em_ [a](http://x) www.x.y http://x",
    "@SUM(1)",
    "-1+1",
    "\t=1",
]


def score(metric="diversity", value=1.0, *, dataset="wikitext", strategy="guard", **other):
    usual = dict.fromkeys(("low", "high")) | {"counts": {}, "note": "", "signature": "", "runs": 1}
    facts = usual | {"level": 0.95, "n": 1} | other
    return Score(metric=metric, dataset=dataset, strategy=strategy, value=value, **facts)


def difference(**changes):
    named = {"metric": "diversity", "dataset": "wikitext", "strategy": "guard", "baseline": "cs"}
    named |= {"level": 0.95, "n": 90, "value": 1.5, "low": -0.25, "high": 3.0, "p_value": 0.00001}
    named |= {"p_holm": 0.0421, "smallest_p": 0.25, "family": 4, "method": "paired bootstrap"}
    return Difference(**named | changes)


NOTES = {"counts": {"empty": 3, "truncated": 1}, "signature": "simctg"}
SCORES = [
    score(value=92.861, low=92.0, high=93.5, n=100, **NOTES),
    score(value=89.5, strategy="cs", n=90, note="No interval: too few prompts.", signature="simctg"),
    score(value=93.84, strategy=HUMAN, n=100, signature="simctg"),
    score("coherence", -2.61, n=97, signature="opt"),
    score("coherence", None, strategy="cs", note="No text has a word", signature="opt"),
    score("coherence", -2.43, strategy=HUMAN, n=100, signature="opt"),
    score("diversity", 0.004, dataset="wikinews", n=5, signature="simctg"),
]
RESULTS = MeasurementResult(
    scores=SCORES,
    differences=[
        difference(),
        difference(metric="coherence", value=None, p_value=None, p_holm=None, note="too few"),
    ],
    settings={"seed": 7, "featuriser": "gpt2", "cut": None},
    warnings=("Two batches differ.",),
)
NASTY = MeasurementResult(
    scores=[
        score(value=float(i), dataset=name, strategy=name, note=name, counts={name: 1}, signature=name)
        for i, name in enumerate(HOSTILE)
    ],
    differences=[difference(dataset=name, strategy=name, baseline=name, method=name) for name in HOSTILE],
    settings={name: name for name in HOSTILE},
    warnings=tuple(HOSTILE),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write ordinary results and results with hostile names, and return the folder of both."""
    path = tmp_path_factory.mktemp("metrics")
    write_results(RESULTS, path / "plain")
    write_results(NASTY, path / "nasty")
    return path


def test_the_score_tables_have_every_measured_metric():
    wikitext, wikinews = make_score_tables(RESULTS.scores)
    assert wikitext.columns == ("Strategy", "Texts", "Div. (%) ↑", "Coh. (nats) ↑")
    assert wikitext.rows == (
        ("guard", 100, "92.86*", "−2.61*"),
        ("cs", 90, "89.50", "–"),
        (HUMAN, 100, "93.84", "−2.43"),
    )
    assert (wikinews.caption, wikinews.rows) == ("wikinews", (("guard", 5, "0.00"),))
    single = make_score_tables(RESULTS.scores[:3], intervals=True)[0]
    assert single.rows[:2] == (("guard", 100, "92.86* [92.00, 93.50]"), ("cs", 90, "89.50"))
    assert "the 95 % interval" in single.note
    assert make_score_tables([]) == []


def test_tables_shorten_very_long_names():
    long = score(strategy="x" * 20_000)
    ((name, *_),) = make_score_tables([long])[0].rows
    assert name == "x" * 79 + "…"


@pytest.mark.parametrize(
    ("metric", "value", "formatted"),
    [
        ("diversity", 92.861, "92.86"),
        ("coherence", -2.4349, "−2.43"),
        ("coherence", -0.001, "0.00"),
        ("words", 175.64535768645356, "175.6"),
        ("tokens_per_second", 1234.5678, "1235"),
        ("diversity", None, "–"),
    ],
)
def test_values_have_the_decimals_of_their_metric(metric, value, formatted):
    assert format_value(metric, value) == formatted


def test_scores_closest_to_human_equal_the_papers_bold_scores():
    table = find_published_figures("tab:ablation_resultglacs")
    rows = [
        score(row.metric, row.number, strategy=row.strategy)
        for row in table[table["dataset"] == "Wikitext"].itertuples()
    ]
    closest = {metric: strategy for metric, _, strategy in find_scores_closest_to_human(rows)}
    # The paper sets AD's MAUVE of 92.20 in bold, though Temp.'s 92.85 is nearer to 100: by its own caption
    # ("closest to human") that is a slip, and Temp. is what we highlight.
    temperature = dict.fromkeys(("mauve", "coherence"), "temperature(tau=0.9)")
    assert closest == temperature | {"diversity": "guard", "bertscore": "guard"}


def test_rounded_ties_are_all_closest_to_human():
    values = {HUMAN: 92.98, "below": 92.88, "above": 93.081, "farther": 92.87, "none": None}
    rows = [score(value=value, strategy=name) for name, value in values.items()]
    closest = find_scores_closest_to_human(rows)
    assert {strategy for _, _, strategy in closest} == {"below", "above"}  # both 0.10 away


def test_csv_files_have_every_field(folder):
    first, second = read_csv(folder / "plain" / "scores.csv")[:2]
    expected = {name: str(value) for name, value in asdict(SCORES[0]).items()}
    assert first == expected | {"counts": "empty: 3; truncated: 1"}
    assert (second["low"], second["note"]) == ("", "No interval: too few prompts.")
    first, second = read_csv(folder / "plain" / "differences.csv")
    assert first == {name: str(value) for name, value in asdict(difference()).items()}
    assert (second["value"], second["p_holm"]) == ("", "")
    for name in ("scores.csv", "differences.csv"):  # which is no formula to a spreadsheet
        assert read_csv(folder / "nasty" / name)[0]["strategy"] == f"'{FORMULA}"


def test_json_has_every_result(folder):
    for name, results in (("plain", RESULTS), ("nasty", NASTY)):
        facts = {
            "scores": [asdict(row) for row in results.scores],
            "differences": [asdict(row) for row in results.differences],
            "settings": results.settings,
            "warnings": results.warnings,
        }
        # UTF-8 has no half of a surrogate pair.
        expected = json.loads(json.dumps(facts).replace(r"\ud800", r"\ufffd"))
        assert json.loads((folder / name / "metrics.json").read_text(encoding="utf-8")) == expected


BY_HAND = {
    ".md": [
        "# Metrics",
        "> Two batches differ.",
        "## wikitext",
        "| Strategy | Texts | Div. (%) ↑ | Coh. (nats) ↑ |",
        "| --- | ---: | ---: | ---: |",
        r"| guard | 100 | 92.86\* \[92.00, 93.50\] | −2.61\* |",
        "| cs | 90 | 89.50 | – |",
        "| guard | 5 | 0.00 |",
        r"| Div. (%) ↑ | wikitext | guard | +1.50 | \[−0.25, 3.00\] | \< .001 | .042 | 90 |",
        r"| Coh. (nats) ↑ | wikitext | guard | – | \[−0.25, 3.00\] | none | none | 90 |",
        "| seed | 7 |",
        "| cut | – |",
        "| diversity | simctg |",
        "| Div. | wikitext, guard | empty: 3; truncated: 1 |",
        "| Div. | wikitext, cs | No interval: too few prompts |",
        "| Coh. against cs | wikitext, guard | too few |",
    ],
    ".tex": [
        r"\begin{tabular}{lrrr}",
        r"Strategy & Texts & Div. (\%) $\uparrow$ & Coh. (nats) $\uparrow$ \\",
        r"guard & 100 & 92.86{*} & $-$2.61{*} \\",
        r"cs & 90 & 89.50 & -- \\",
        "% Two batches differ.",
        "% Div.: wikitext, guard: empty: 3; truncated: 1",
        "% seed: 7",
        "% coherence: opt",
    ],
}


@pytest.mark.parametrize("ending", BY_HAND)
def test_pages_equal_handwritten_pages(ending):
    lines = render_metrics_page(RESULTS, ending).splitlines()
    assert not [line for line in BY_HAND[ending] if line not in lines]


def test_html_has_all_results_and_loads_nothing(folder):
    page = Page((folder / "plain" / "metrics.html").read_text(encoding="utf-8"))
    page_text = " ".join(" ".join(page.texts).split())
    for words in ("92.86* [92.00, 93.50]", "+1.50 [−0.25, 3.00] < .001 .042 90", "empty: 3; truncated: 1"):
        assert words in page_text
    links = [value for _, held in page.tags for name, value in held.items() if not name.startswith("xmlns")]
    assert not any(str(value).startswith(("http", "//")) for value in links)


def test_html_escapes_markup_in_names(folder):
    text = (folder / "nasty" / "metrics.html").read_text(encoding="utf-8")
    page = Page(text)
    names = [name for name, _ in page.tags]
    assert not {"script", "img"} & {*names}
    assert names.count("figure") == names.count("svg") == 1
    assert not [name for _, held in page.tags for name in held if name.startswith("on")]
    ids = [held["id"] for _, held in page.tags if "id" in held]
    assert len(ids) == len(set(ids))
    assert "{{ 7*7 }}" in text  # a name is no template
    assert not {"\x1b", "\x00"} & {*text}


def test_line_breaks_cannot_end_a_latex_comment():
    tables, comments = render_metrics_page(NASTY, ".tex").rsplit("\\end{table}\n", 1)
    assert all(line.startswith("% ") for line in comments.splitlines())
    assert "\\input{x}" not in tables


def test_latex_compiles(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not on the PATH; run: apt-get install texlive-latex-recommended")
    names = ["x" * 20_000, *("".join(map(chr, range(start, start + 16))) for start in range(0xA0, 0x250, 16))]
    more = [score(strategy=name) for name in names] + [score(strategy=HUMAN)]
    document = r"\documentclass{article}\usepackage{booktabs,array,graphicx}\begin{document}\input{%s}"
    for name, results in (("plain", RESULTS), ("nasty", NASTY), ("more", MeasurementResult(scores=more))):
        (tmp_path / f"{name}.table.tex").write_text(render_metrics_page(results, ".tex"), encoding="utf-8")
        (tmp_path / f"{name}.tex").write_text(document % f"{name}.table" + r"\end{document}")
        options = ["-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error"]
        ran = run_process(["pdflatex", *options, f"{name}.tex"], tmp_path, timeout=60)
        assert ran.code == 0, ran.out[-2000:]


def test_a_figure_has_the_means_over_datasets(tmp_path):
    whole = [replace(row, dataset=OVERALL, value=50.0) for row in SCORES if row.strategy == "guard"]
    write_results(replace(RESULTS, scores=SCORES + whole), tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"diversity.svg", "coherence.svg"}
    assert "50.00" in (tmp_path / "figures" / "diversity.svg").read_text(encoding="utf-8")


def test_a_page_begins_with_question_and_overall_table():
    whole = MeasurementResult(
        scores=[*SCORES, score(dataset=OVERALL)], differences=[difference()], question="Which is better?"
    )
    page = render_metrics_page(whole, ".html")
    assert "<h1" in page
    assert "Which is better?" in page.split("</h1>")[0]
    assert page.index(OVERALL) < page.index("wikitext")
    assert page.index("<details") < page.index("Differences from cs")


def test_a_terminal_shows_all_datasets_and_two_metrics():
    names = ("diversity", "coherence", "perplexity")
    differences = [
        difference(metric=name, dataset=where) for name in names for where in ("wikitext", OVERALL)
    ]
    scores, tested = make_terminal_tables(
        MeasurementResult(scores=[*SCORES, score(dataset=OVERALL)], differences=differences)
    )
    assert len(scores.rows) == 1
    assert [row[1] for row in tested.rows] == [OVERALL, OVERALL]


def test_untested_differences_are_marked():
    untested = difference(p_value=None, p_holm=None)
    assert make_difference_table([untested]).note.startswith("No difference")
