"""`guard-eval report` on a plain table: who judged, and tables that are none."""

import pytest

import analysis.report
from guard_eval.cli import report
from guard_eval.errors import StudyError

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"
ROWS = "".join(f"{i},d,x,y,gpt,coherence,{'xy'[i % 2]}\n" for i in range(6))


@pytest.fixture
def reported(monkeypatch, tmp_path):
    """Return a function that reports on a file and returns the verdicts and the context."""
    seen = []

    def write_report(verdicts, folder, context):
        seen.append((verdicts, context))
        return analysis.report.Report(paths=(folder / "index.html",), summary="said")

    monkeypatch.setattr(analysis.report, "write_report", write_report)

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
    said = ROWS.replace("\n", ",person\n")
    with pytest.raises(StudyError, match="itself says rater_kind 'person' on lines 2, 3, 4, 5, 6 and 1 more"):
        reported(f"{HEADER},rater_kind\n{said}", rater_kind="model")
    with pytest.raises(StudyError, match="is a study, and knows who judged; leave --rater-kind out"):
        report.command(study, rater_kind="model")
