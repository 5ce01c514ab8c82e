"""The report as a whole: complete, escaped, self-contained, reproducible, and readable."""

import dataclasses
import json
import re

import pandas as pd
import pytest
from app_study import chromium, shared_browser  # noqa: F401
from factories import make_pair
from html_page import Page
from read_files import read_folder
from verdicts_by_hand import COMPARED, drawn_verdicts, joined, papers_people, table

import analysis
from analysis import read
from analysis.evidence import Context, Evidence
from analysis.reports.files import write_report
from analysis.reports.first_screen import build_first_screen
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError
from guard_eval.metrics.scores import Score
from guard_eval.records import PEOPLE, DeclaredPart

pytestmark = pytest.mark.slow

A, B = "guard(window=7, decay=0.95)", "top_k(k=50)"
EVIL = (
    '<script>alert(1)</script><img src=x onerror="y"> \\input{x} $x_1$ 100% ```\n````\n'
    "**b** {{ 7*7 }} <% x %>"
)


def verdicts(kind="person", method_a=A, **columns):
    """Return the verdicts of three raters on 30 pairs of three datasets."""
    drawn = drawn_verdicts(prompts=30, datasets=3, compared=((method_a, B),))
    return drawn[drawn["rater_kind"] == "person"].assign(rater_kind=kind, **columns)


def context(**changes):
    texts = {"prompt": EVIL, "text_a": EVIL, "text_b": "שלום עולם"}
    score = Score(
        metric="diversity",
        dataset="d0",
        strategy=A,
        value=-0.5,
        low=None,
        high=None,
        level=0.95,
        n=30,
        note="=x",
        counts={},
        signature="diversity|n:2-4",
        runs=1,
    )
    whole = Context(
        name="A study & <its> name",
        planned=((A, B, "c"),),
        metrics=(score,),
        examples=(make_pair(id=f"000-{A}{B}-0", dataset="d0", method_a=A, method_b=B, **texts),),
        settings=f'name = "x"\n# {EVIL}\n',
    )
    return dataclasses.replace(whole, **changes)


@pytest.mark.parametrize("has_people", [True, False])
def test_changes_of_the_deciding_raters_are_exploratory(has_people):
    people = DeclaredPart(name=PEOPLE, hash="b", first_hash="a" if has_people else None)
    judge = DeclaredPart(name="judge m", hash="b", first_hash="a", changes=("seed from 1 to 2",))
    described = context(parts=(people, judge))
    change = "settings were changed after the first verdict of judge m: seed from 1 to 2"
    assert described.late_changes == (() if has_people else (change,))
    assert list(described.describe_changed_settings(deciding=False)) == ([change] if has_people else [])


def write(frame, folder, *, paper=False, **changes):
    return write_report(
        Evidence.from_verdicts(check_verdicts(frame), context(**changes)), folder, paper=paper
    )


def numbers(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, write(verdicts(), folder)


def page_of(folder):
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def test_report_json_has_the_numbers_of_every_csv(written):
    folder, report = written
    assert report.paths[0] == folder / "index.html"
    assert {str(path.relative_to(folder)) for path in report.paths} == set(read_folder(folder))
    assert report.summary.startswith("3\u00a0people rated 30\u00a0pairs")
    assert numbers(folder)["answer"] == report.summary
    tables = {path.stem: path for path in (folder / "csv").glob("*.csv") if path.stem != "verdicts"}
    assert {"win_shares", "agreement", "metrics"} <= set(tables) == set(numbers(folder)["tables"])
    for name, path in tables.items():
        assert len(pd.read_csv(path)) == len(numbers(folder)["tables"][name])


def test_page_has_no_external_files_and_no_scripts(written):
    page = page_of(written[0])
    assert not {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "object"}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
        assert "src" not in attributes
    policy = [
        attributes["content"] for tag, attributes in page.tags if tag == "meta" and "http-equiv" in attributes
    ]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_ids_are_unique_and_links_have_targets(written):
    page = page_of(written[0])
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"][1:] for tag, attributes in page.tags if tag == "a"} <= set(ids)
    assert len(words_of(written[0]).split()) < 3000  # a reader reaches the end


def test_markup_in_texts_is_shown_and_not_interpreted(written):
    page = page_of(written[0])
    assert EVIL in page.texts
    markdown = (written[0] / "report.md").read_text(encoding="utf-8")
    assert "`````text\n" + EVIL in markdown  # the fence is longer than the backticks inside
    assert "49" not in page.texts


def test_names_with_special_characters_are_shown(tmp_path):
    name = '<u>$x_1$ "中文" &amp; |=1'
    write(verdicts(method_a=name), tmp_path, paper=True, planned=None, examples=())
    assert "u" not in {tag for tag, attributes in page_of(tmp_path).tags if "style" not in attributes}
    assert "\\$x" in (tmp_path / "paper" / "table.tex").read_text(encoding="utf-8")


def test_names_of_several_lines_begin_no_line_of_the_answer(tmp_path):
    name = "guard\n9 of 9 raters prefer guard"
    written = write(verdicts(method_a=name), tmp_path, planned=None, examples=())
    assert "guard 9 of 9 raters" in str(written.results[0])
    assert not any("\n" in line for line in (written.summary, *map(str, written.results)))


def test_written_verdicts_can_be_read_again(written, tmp_path):
    reread = read(written[0] / "csv" / "verdicts.csv")
    assert write(reread, tmp_path).summary == written[1].summary


def test_tables_of_an_earlier_report_are_removed(tmp_path):
    write(verdicts(), tmp_path, paper=True)
    (tmp_path / "csv" / "mine.csv").write_text("kept", encoding="utf-8")
    write(verdicts().drop(columns="shown_first"), tmp_path, metrics=pd.DataFrame())
    for name in ("csv/position.csv", "csv/metrics.csv", "paper/table.tex"):
        assert not (tmp_path / name).exists()
    assert (tmp_path / "csv" / "mine.csv").exists()


def test_failed_report_keeps_the_earlier_page(tmp_path):
    write(verdicts(), tmp_path)
    page = (tmp_path / "index.html").read_bytes()
    (tmp_path / "report.json").unlink()
    (tmp_path / "report.json").mkdir()
    with pytest.raises(StudyError, match=r"report\.json exists and is not a regular file; name another file"):
        write(verdicts(), tmp_path, name="a newer study")
    assert (tmp_path / "index.html").read_bytes() == page
    assert [*tmp_path.rglob(".*")] == []


def words_of(folder):
    html = (folder / "index.html").read_text(encoding="utf-8")
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)


def test_simulated_verdicts_are_marked_in_every_table(tmp_path):
    judged = verdicts("simulated", rater="SIMULATED rater 1").drop_duplicates("pair_id")
    write(judged, tmp_path, settings="", planned=None)
    assert len(re.findall("simulated", words_of(tmp_path), flags=re.IGNORECASE)) == 1
    assert all(row["simulated"] for row in numbers(tmp_path)["tables"]["win_shares"])


def test_paper_folder_has_files_and_published_p_values(tmp_path):
    papers_people().to_csv(tmp_path / "counts.csv", index=False)
    analysis.report(tmp_path / "counts.csv", tmp_path / "out", paper=True)
    paper = tmp_path / "out" / "paper"
    assert (paper / "figure.pdf").read_bytes().startswith(b"%PDF")
    analyses = numbers(tmp_path / "out")["tables"]["sensitivity"]
    pooled = [row["p"] for row in analyses if row["analysis"].startswith("ratings pooled")]
    assert pooled == [pytest.approx(2.875e-06, rel=1e-3), pytest.approx(0.01819, rel=1e-3)]
    assert "GUARD was preferred to ACS" in (paper / "sentence.txt").read_text(encoding="utf-8")
    cited = set(re.findall(r"\\citep\{(.*?)\}", (paper / "methods.tex").read_text(encoding="utf-8")))
    keys = set(re.findall(r"@\w+\{(\w+),", (paper / "references.bib").read_text(encoding="utf-8")))
    assert {key for group in cited for key in group.split(",")} == keys > {"pitman1937", "holm1979"}


def read_paper(folder, frame, **plan):
    analysis.report(frame, folder, paper=True, **plan)
    return {
        name: (folder / "paper" / name).read_text(encoding="utf-8").replace("\u00a0", " ")
        for name in ("sentence.txt", "table.md", "methods.tex")
    }


def test_paper_names_the_judge_who_assisted(tmp_path):
    # People rated the first 40 of 120 pairs, and x wins two thirds of all pairs.
    letters = {f"{n:03}": "xxy"[n % 3] for n in range(120)}
    people = table({pair: letters[pair] for pair in sorted(letters)[:40]})
    judge = table(letters, kind="model", raters=["two"])
    paper = read_paper(tmp_path, joined(people, judge), assisted_by="two", random_part=True)
    assert "(PPI++), stratified by dataset, assisted by two" in paper["sentence.txt"]
    assert "assisted by two. Bold: p at most .05" in paper["table.md"]
    assert "two judged 120 pairs." in paper["methods.tex"].replace("~", " ")


def test_paper_says_why_there_is_no_conclusion(tmp_path):
    paper = read_paper(tmp_path, table({"1": "x", "2": "y", "3": "x"}, criterion="coherence"))
    assert "on coherence there was no conclusion about x and y, too few pairs" in paper["sentence.txt"]
    assert "Bold" not in paper["table.md"]
    assert ".." not in paper["methods.tex"]


def test_answer_names_the_winner_in_either_orientation(tmp_path):
    for winner, loser, share in (("x", "y", "82"), ("y", "x", "x 18")):  # the share is the first method's
        frame = table({f"{pair}": winner * 3 if pair % 6 else loser * 3 for pair in range(40)})
        report = analysis.report(frame, tmp_path)
        assert f"{winner} was preferred to {loser} on coherence ({share}\u00a0%)" in report.summary


TWO_COMPARISONS = [
    ({f"{pair}": "xy"[pair % 2] for pair in range(40)}, "a1", "a2"),
    ({f"b{pair}": "y" if pair < 36 else "x" for pair in range(40)}, "b1", "b2"),
]


def compared(*more):
    return joined(*(table(letters, a=a, b=b) for letters, a, b in (*TWO_COMPARISONS, *more)))


def test_first_screen_shows_each_comparison_separately(tmp_path):
    summary = analysis.report(compared(), tmp_path).summary
    assert "No difference between a1 and a2 was found" in summary
    assert "b2 was preferred to b1 on coherence (b1 10\u00a0%)" in summary
    heads = [text for text in page_of(tmp_path).texts if text.endswith(", ties half")]
    assert heads == ["Share of a1, ties half", "Share of b1, ties half"]
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    before, after = markdown.split("| Criterion | Share of b1, ties half |")
    assert "50.0" in before.split("| Criterion | Share of a1, ties half |")[1]
    assert "10.0" in after.split("##")[0]


def test_first_screen_shows_a_ranking_and_a_comparison(tmp_path):
    circle = [({f"{a}{b}{n}": "x" for n in range(12)}, a, b) for a, b in ("cd", "de", "ce")]
    summary = analysis.report(compared(*circle), tmp_path).summary
    assert "c leads" in summary
    assert "b2 was preferred to b1" in summary
    labels = " ".join(page_of(tmp_path).texts)
    assert "1. c" in labels
    assert "Share of b1, ties half" in labels


def test_first_screen_and_tables_have_one_orientation(tmp_path):
    """y is ahead: the page gives the share of x, the first method, and names it where y is the subject."""
    frame = table({f"{pair}": "yy-" if pair % 3 else "x-y" for pair in range(30)})
    screen = build_first_screen(
        Evidence.from_verdicts(check_verdicts(frame), context(planned=(("x", "y", "coherence"),)))
    )
    (line,) = screen.bars[0].lines
    # Of three ratings 10 pairs have a win, a tie and a loss, and 20 have two losses and a tie.
    assert (line.won, line.tied) == (pytest.approx(10 / 90), pytest.approx(30 / 90))
    assert line.interval.value == pytest.approx(10 / 90 + 30 / 90 / 2)
    assert line.win_and_tie_shares == "11\u00a0% won, 33\u00a0% tied"
    assert screen.bars[0].heads[1] == "Share of x, ties half"
    assert screen.answer == "y was preferred to x on coherence (x 28\u00a0%)."


@pytest.mark.browser
def test_bar_of_wins_starts_at_the_side_of_its_method(chromium, tmp_path):  # noqa: F811
    """Of three ratings 10 pairs have a win, a tie and a loss, and 20 have two losses and a tie."""
    frame = table({f"{pair}": "yy-" if pair % 3 else "x-y" for pair in range(30)})
    analysis.report(frame, tmp_path)
    page = chromium.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    boxes = {name: page.locator(f".bar {name}").bounding_box() for name in ("", ".won", ".lost")}
    start, width = boxes[""]["x"], boxes[""]["width"]
    assert boxes[".lost"]["x"] == pytest.approx(start, abs=1)
    assert boxes[".lost"]["width"] == pytest.approx(width * 50 / 90, abs=2)
    assert boxes[".won"]["x"] + boxes[".won"]["width"] == pytest.approx(start + width, abs=1)
    assert boxes[".won"]["width"] == pytest.approx(width * 10 / 90, abs=2)
    ends = [page.get_by_text(f"{name} wins").bounding_box()["x"] for name in "yx"]
    assert ends[0] < start + width / 2 < ends[1]


def test_answer_names_no_winner_if_all_verdicts_are_ties(tmp_path):
    summary = analysis.report(table({f"{pair}": "--" for pair in range(9)}), tmp_path).summary
    assert "every pair is balanced between x and y" in summary
    assert "0 % won, 100 % tied" in (tmp_path / "report.md").read_text(encoding="utf-8").replace(
        "\u00a0", " "
    )


def test_answer_of_no_difference_gives_the_detectable_share(tmp_path):
    """Of 40 ratings half are wins: the error is √(.25/39), and d = 1.96 √(e² + d²/40) + .84 e."""
    summary = analysis.report(table({f"{n}": "x" if n % 2 else "y" for n in range(40)}), tmp_path).summary
    error = (0.25 / 39) ** 0.5
    distances = [step / 1000 for step in range(500)]
    detectable = next(d for d in distances if d >= 1.96 * (error**2 + d**2 / 40) ** 0.5 + 0.8416 * error)
    assert (
        f"With 40\u00a0pairs, a share of {50 + 100 * detectable:.0f}\u00a0% or more would have been found"
        in summary
    )


@pytest.mark.parametrize(
    ("words", "plan", "sentence"),
    [
        (["x", "x", "x", "-", "-", "y", "y", "y"], {}, "With 8 pairs, only a share close to 100 %"),
        (["x", "y"] * 20, {"sequential": True}, "would have been found is not computed for this test"),
    ],
)
def test_answer_of_no_difference_says_if_no_share_is_detectable(tmp_path, words, plan, sentence):
    frame = table({f"{pair}": word for pair, word in enumerate(words)})
    summary = analysis.report(frame, tmp_path, **plan).summary.replace("\u00a0", " ")
    assert "No difference between x and y was found" in summary
    assert sentence in summary


def test_declared_comparisons_come_before_a_ranking(tmp_path):
    three = (table({f"{a}{b}{n}": "xy"[n % 2] for n in range(12)}, a=a, b=b) for a, b in ("cd", "ce", "de"))
    frame = joined(*three)
    planned = (("c", "d", "coherence"), ("c", "e", "coherence"))
    declared = build_first_screen(Evidence.from_verdicts(frame, context(planned=planned)))
    assert [bars.heads[0] for bars in declared.bars] == ["Criterion", "Criterion", "Coherence"]
    assert declared.answer == "No difference between c and d or between c and e was found."
    assert "there is no evidence that one of 3 methods is better" in declared.more
    assert "sign-flip" in declared.foot
    explored = build_first_screen(Evidence.from_verdicts(frame, context(planned=None)))
    assert explored.bars[0].heads[0] == "Coherence"
    assert "Davidson’s model" in explored.foot
    assert "sign-flip" not in explored.foot


def test_methods_that_win_in_a_circle_have_no_order(tmp_path):
    won = (table({f"{a}{b}{n}": "x" for n in range(8)}, a=a, b=b) for a, b in ("cd", "de", "ec"))
    summary = analysis.report(joined(*won), tmp_path).summary
    assert "On coherence c, d and e beat each other in a circle, so they have no order" in summary
    assert "no evidence" not in summary


UNDECIDED = [
    # One pair for a method and one tie: one pair is off balance, and its two signs give only p = 1.
    ({"1": "x", "2": "-"}, "fixed", "Too few pairs favour x or y to tell them apart on coherence."),
    ({"1": "xy", "2": "--"}, "fixed", "On coherence every pair is balanced between x and y."),
    (
        {"1": "xx", "2": "y-"},
        "random",
        "On coherence there is no test of x against y: a result for other raters",
    ),
]


@pytest.mark.parametrize(("verdicts", "raters", "sentence"), UNDECIDED)
def test_result_is_called_balanced_only_if_all_pairs_are(verdicts, raters, sentence, tmp_path):
    summary = analysis.report(table(verdicts), tmp_path, raters=raters).summary
    assert sentence in summary
    assert ("balanced" in summary) == ("balanced" in sentence)


def test_contradiction_of_interval_and_test_is_explained(tmp_path):
    # 15 of 20 pairs for x: p = .041, and of two criteria Holm's is .083; the interval is above .5.
    first = table({f"{pair}": "x" if pair < 15 else "y" for pair in range(20)}, criterion="a")
    second = table({f"{pair}": "xy"[pair % 2] for pair in range(20)}, criterion="b")
    analysis.report(joined(first, second), tmp_path, family=["a", "b"])
    assert "An interval can exclude 50\u00a0% without evidence" in " ".join(page_of(tmp_path).texts)


def test_interval_and_test_never_disagree_for_one_result(tmp_path):
    # 60 of 100: the exact test's p is .057, where Student's interval ends at .4977.
    frame = table({f"{pair}": "x" if pair < 40 else "y" for pair in range(100)})
    analysis.report(frame, tmp_path)
    (row,) = pd.read_csv(tmp_path / "csv" / "win_shares.csv").itertuples()
    assert row.p == pytest.approx(0.0569, abs=1e-4)
    assert row.high == 0.5
    assert "can exclude" not in " ".join(page_of(tmp_path).texts)


def test_ranking_of_many_methods_comes_first(tmp_path):
    frame = check_verdicts(drawn_verdicts(prompts=20, compared=COMPARED))
    analysis.report(frame, tmp_path, paper=True)
    # Its p are people's alone, so no judge is named.
    sentence = (tmp_path / "paper" / "sentence.txt").read_text(encoding="utf-8")
    assert sentence.startswith("3 people compared 60 pairs")
    assert "gpt" not in sentence
    page = page_of(tmp_path)
    questions = [attributes["id"] for tag, attributes in page.tags if tag == "details" and "id" in attributes]
    assert questions[0] == "ranking"
    assert len(numbers(tmp_path)["tables"]["ranking"]) == 6
    with pytest.raises(StudyError, match="are not compared"):
        write(frame, tmp_path / "b", planned=None, compare=(("x", "nobody"),))


def test_figures_are_matplotlib_objects(tmp_path):
    (drawn,) = analysis.figures(check_verdicts(verdicts())).values()
    drawn.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_faulty_declaration_in_a_notebook_is_named():
    for declared, message in (
        ({"famly": ["style"]}, "family"),
        ({"family": "style"}, "in square brackets"),
        ({"family": ["colour"]}, "the family contains 'colour'"),
    ):
        with pytest.raises(StudyError, match=message):
            analysis.shares(verdicts(), **declared)
