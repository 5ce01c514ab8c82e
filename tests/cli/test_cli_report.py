"""`guard-eval report` on a plain table: who judged, and tables that are none."""

import csv
from dataclasses import replace

import pytest
from rating import people

import analysis.reports.build
import guard_eval.cli.reporting.significance
from guard_eval.cli import report
from guard_eval.cli.reporting.study import study_context
from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"
ROWS = "".join(f"{i},d,x,y,gpt,coherence,{'xy'[i % 2]}\n" for i in range(6))


@pytest.fixture
def reported(monkeypatch, tmp_path):
    """Return a function that reports on a file and returns the verdicts and the context."""
    seen = []

    def write_report(verdicts, folder, context):
        seen.append((verdicts.frame, context))
        return analysis.reports.build.Report(paths=(folder / "index.html",), summary="stated")

    monkeypatch.setattr(guard_eval.cli.reporting.significance, "write_report", write_report)

    def run(content, **options):
        path = tmp_path / "judged.csv"
        path.write_text(content)
        report.command(path, **options)
        return seen.pop()

    return run


def test_who_judged_where_the_table_does_not_say(reported):
    verdicts, context = reported(f"{HEADER}\n{ROWS}")
    assert set(verdicts["rater_kind"]) == {"person"}
    assert context.command == "guard-eval report judged.csv"
    verdicts, context = reported(f"{HEADER}\n{ROWS}", rater_kind="model")
    assert set(verdicts["rater_kind"]) == {"model"}
    assert context.command == "guard-eval report judged.csv --rater-kind model"


def test_what_is_said_of_raters_must_hold(reported, study):
    with pytest.raises(StudyError, match="'robot' is unknown; write one of: person, model, simulated"):
        reported(f"{HEADER}\n{ROWS}", rater_kind="robot")
    stated = ROWS.replace("\n", ",person\n")
    with pytest.raises(StudyError, match="itself says rater_kind 'person' on lines 2, 3, 4, 5, 6 and 1 more"):
        reported(f"{HEADER},rater_kind\n{stated}", rater_kind="model")
    with pytest.raises(StudyError, match=r"is a study, whose study.toml declares .*; leave --rater-kind out"):
        report.command(study, rater_kind="model")


def test_for_whom_a_tables_answer_is_to_hold(reported, study):
    assert reported(f"{HEADER}\n{ROWS}")[1].raters == "these"
    context = reported(f"{HEADER}\n{ROWS}", raters="population")[1]
    assert (context.raters, context.command) == (
        "population",
        "guard-eval report judged.csv --raters population",
    )
    with pytest.raises(StudyError, match=r"study\.toml declares what holds for it; leave --raters out"):
        report.command(study, raters="population")


def test_correction_and_margin_of_a_table(reported, study):
    context = reported(f"{HEADER}\n{ROWS}", correction="max-t", margin=0.05)[1]
    assert (context.correction, context.margin) == ("max-t", 0.05)
    assert context.command == "guard-eval report judged.csv --correction max-t --margin 0.05"
    with pytest.raises(StudyError, match=r"study\.toml declares what holds for it; leave --correction out"):
        report.command(study, correction="max-t")
    with pytest.raises(StudyError, match=r"study\.toml declares what holds for it; leave --margin out"):
        report.command(study, margin=0.05)
    with pytest.raises(StudyError, match=r"margin: 0\.5: input should be less than 0\.5"):
        reported(f"{HEADER}\n{ROWS}", margin=0.5)


def test_a_study_declares_them(paired):
    path = paired / "study.toml"
    text = path.read_text()
    assert "[analysis]" not in text
    path.write_text(f'{text}\n[analysis]\ncorrection = "max-t"\nequivalence_margin = 0.04\n')
    opened = Study.open(paired)
    with Store.open(opened.database, study_hash=opened.hash) as store:
        context = study_context(opened, store, store.tidy())
    assert (context.correction, context.margin) == ("max-t", 0.04)


def test_a_report_on_unfinished_ratings_says_so(paired, capsys):
    """Whoever looks now and then, and stops when p is small, must read that p is not for that."""
    opened = Study.open(paired)
    with Store.open(opened.database, study_hash=opened.hash) as store:
        (ann,) = people(store, "ann")
        pairs = len(store.pairs())
        for blind in store.hand_out(ann, opened.plan, limit=pairs)[1:]:
            store.save(blind.presentation, dict.fromkeys(opened.settings.annotation.criteria, "A"), rater=ann)
        wanted = pairs * opened.settings.annotation.raters_per_pair
        (unfinished,) = study_context(opened, store, store.tidy()).unfinished
        every = [replace(row, rater=f"r{place}") for place, row in enumerate(store.tidy() * wanted)]
        assert study_context(opened, store, every).unfinished == ()
    assert unfinished == f"people gave {pairs - 1} of {wanted} ratings"
    report.command(paired)
    assert f"Not everything that was planned is rated: {unfinished}" in capsys.readouterr().out
    page = (paired / "report" / "report.md").read_text(encoding="utf-8")
    assert "tests and intervals are those of a number of pairs fixed beforehand" in page


def test_both_corrections_and_the_margin_in_the_report(tmp_path, capsys):
    path = tmp_path / "judged.csv"
    rows = "".join(
        f"{i},d,x,y,r,{criterion},{'x' if i else 'tie'}\n"
        for i in range(9)
        for criterion in ("coherence", "fluency")
    )
    path.write_text(f"{HEADER}\n{rows}")
    report.command(path, output=tmp_path / "out", correction="max-t", margin=0.1)
    answer = capsys.readouterr().out
    # Eight pairs for x: 2 of 256 sign patterns, for both criteria together; Holm doubles it.
    assert "p = .008" in answer.replace("\u00a0", " ")
    assert "after Westfall–Young's correction" in answer
    assert "coherence is different" in answer
    with (tmp_path / "out" / "csv" / "win_shares.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert [float(row[f"p_{name}"]) for name in ("adjusted", "westfall_young", "holm")] == [
                2 / 256,
                2 / 256,
                4 / 256,
            ]
            assert row["corrected_by"] == "all 128 sign patterns"
    with (tmp_path / "out" / "csv" / "equivalence.csv").open(encoding="utf-8") as file:
        assert {row["conclusion"] for row in csv.DictReader(file)} == {"different"}
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Westfall–Young: step-down max-T." in page
    assert "Is the share within 10" in page


def test_a_models_name_without_a_kind_is_warned_of(tmp_path, capsys):
    path = tmp_path / "judged.csv"
    path.write_text(f"{HEADER}\n{ROWS.replace('gpt', 'gpt-4')}")
    report.command(path, output=tmp_path / "out")
    stated = "rater is 'gpt-4' on lines 2, 3, 4, 5, 6 and 1 more, the name of a model, and counts as a person"
    assert f"warning: {stated}: add a column rater_kind" in capsys.readouterr().err
    assert "add a column rater" in (tmp_path / "out" / "index.html").read_text()
    report.command(path, output=tmp_path / "out", rater_kind="model")
    assert "warning" not in capsys.readouterr().err


def test_a_report_on_a_table_is_written_where_one_is(tmp_path, monkeypatch):
    """Not beside the data, which may be somebody else's; and over no folder of anything else."""
    data, here = tmp_path / "data", tmp_path / "here"
    data.mkdir()
    here.mkdir()
    (data / "judged.csv").write_text(f"{HEADER}\n{ROWS}")
    monkeypatch.chdir(here)
    for _ in range(2):  # the second time over the report of the first
        report.command(data / "judged.csv")
    assert [path.name for path in data.iterdir()] == ["judged.csv"]
    assert (here / "judged-report" / "index.html").is_file()
    (data / "other.csv").write_text(f"{HEADER}\n{ROWS}")
    (here / "other-report").mkdir()
    (here / "other-report" / "thesis.tex").write_text("mine")
    with pytest.raises(StudyError, match=r"other-report exists and is no report; .* --output FOLDER"):
        report.command(data / "other.csv")
    assert [path.name for path in (here / "other-report").iterdir()] == ["thesis.tex"]
