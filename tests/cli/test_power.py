"""`guard-eval power` as its user meets it."""

import json

import pytest

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict\n"
BY_PAIR = {"p1": ("guard", "guard"), "p2": ("tie", "tie"), "p3": ("acs", "guard"), "p4": ("tie", "guard")}


@pytest.fixture
def pilot(tmp_path):
    """Return the command that plans from the verdicts of two raters."""
    rows = [f"{pair},d,guard,acs,r{n},fluency,{both[n]}\n" for pair, both in BY_PAIR.items() for n in (0, 1)]
    (tmp_path / "pilot.csv").write_text(HEADER + "".join(rows), encoding="utf-8")
    return ("power", "--from", "pilot.csv")


def test_power_command_prints_the_needed_items(run, tmp_path, pilot):
    figure = tmp_path / "out" / "curve.svg"
    command = (*pilot, "--share", "0.6", "--raters", "1,3", "--output", str(figure))
    ran = run(*command)
    assert ran.code == 0, ran
    assert "pilot: fluency, guard against acs" in ran.out
    assert figure.read_text(encoding="utf-8").startswith("<?xml")
    numbers = json.loads(run(*command, "--ties", "0.2", "--json").out)
    assert [need["raters"] for need in numbers["needs"]] == [1, 3]
    assert (numbers["design"]["ties"], numbers["design"]["icc"]) == (0.2, 0.0)


DECLARED = {
    'raters="random"': ["--rater-sd", "0.05"],
    "alpha=0.1": ["--alpha", "0.1"],
    "margin=0.1": ["--margin", "0.1"],
}
"""Settings of a pilot's test, with the options that plan for this test."""


@pytest.mark.parametrize(("setting", "options"), DECLARED.items())
def test_plan_names_declared_settings_that_it_does_not_follow(run, pilot, setting, options):
    command = (*pilot, "--ties", "0.2", "--raters", "4", "--set", setting)
    plan = run(*command)
    assert plan.code == 0, plan
    name = setting.partition("=")[0]
    assert f"the pilot declares {name} = " in plan.err
    assert options[0] in plan.err
    followed = run(*command, *options)
    assert "the pilot declares" not in followed.err + followed.out


def test_power_warns_of_a_sequential_pilot(run, pilot):
    plan = run(*pilot, "--ties", "0.2", "--set", "sequential=true")
    assert "such tests need more items than this plan says" in plan.err
