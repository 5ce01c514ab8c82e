"""`guard-eval power` as its user meets it."""

import json

import pytest

from guard_eval.cli.power import command
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow

FEW = {"share": 0.7, "raters": "1,3", "studies": 300}


def test_tables_and_a_curve(capsys, tmp_path):
    command(**FEW, criteria=2, items="20,40", output=tmp_path / "out" / "curve.svg")
    out = capsys.readouterr().out
    assert "To find a win share of 70.0" in out
    assert "Holm over 2 criteria" in out
    assert "Next: guard-eval new" in out
    assert (tmp_path / "out" / "curve.svg").read_text(encoding="utf-8").startswith("<?xml")
    rows = [line.split() for line in out.splitlines()]
    assert any(row[:1] == ["40"] and "±" in row for row in rows)


def test_json_alone_from_a_pilot(capsys, tmp_path):
    header = "pair_id,dataset,method_a,method_b,rater,criterion,verdict\n"
    choices = {"p1": ("guard", "guard"), "p2": ("tie", "tie"), "p3": ("acs", "guard"), "p4": ("tie", "guard")}
    lines = [f"{pair},d,guard,acs,r{n},fluency,{both[n]}\n" for pair, both in choices.items() for n in (0, 1)]
    (tmp_path / "pilot.csv").write_text(header + "".join(lines))
    command(**FEW, pilot=tmp_path / "pilot.csv", as_json=True)
    made = json.loads(capsys.readouterr().out)
    # By hand in tests/analysis/test_power.py: 3 of 8 tie, κ = 3/19.
    assert made["question"]["ties"] == 0.375
    assert made["question"]["agreement"] == pytest.approx(3 / 19)
    assert [need["raters"] for need in made["needs"]] == [1, 3]
    command(**(FEW | {"studies": 100}), pilot=tmp_path / "pilot.csv", ties=0.2)
    shown = capsys.readouterr().out
    assert "planned with: fluency, guard against acs" in shown
    assert "20 % ties, κ = 0.16" in shown.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"items": "-4"}, "-4 items"),
        ({"kappa": 1.5}, "a κ of 1.5"),
        ({"raters": "two"}, "--raters 'two'"),
        ({"output": "curve.doc"}, "ends in .html"),
        ({"pilot": "nowhere.csv"}, "cannot read"),
        ({"pilot": "."}, "is not a study"),
    ],
)
def test_bad_input(tmp_path, options, says):
    paths = {name: tmp_path / options[name] for name in ("output", "pilot") if name in options}
    with pytest.raises(StudyError, match=says):
        command(**(options | paths))


def test_bad_input_ends_with_code_2(run):
    assert "a share of 0.5 cannot be planned for" in run("power", "--share", "0.5").refused()
