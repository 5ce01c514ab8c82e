"""Planning a claim of equivalence: the formula by hand, simulated sizes, and the command."""

import json
import re

import pytest
from scipy import stats

from analysis.planning.equivalence import equivalence_needs
from analysis.planning.question import PlanningQuestion
from guard_eval.cli.power import command
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow

QUESTION = PlanningQuestion(raters=(1, 3), studies=2000)


def test_one_rater_by_hand():
    # A share of 1, ½ or 0 with 32 % ties has the variance .68/4 = .17: .17 ((1.645 + 1.282)/.1)², and 3.290.
    needs = {(need.raters, need.power): need for need in equivalence_needs(QUESTION, 0.1)}
    assert needs[1, 0.8].formula == pytest.approx(
        0.17 * ((stats.norm.ppf(0.95) + stats.norm.ppf(0.9)) / 0.1) ** 2
    )
    assert needs[1, 0.9].formula == pytest.approx(0.17 * (2 * stats.norm.ppf(0.95) / 0.1) ** 2)
    for need in needs.values():
        # t and whole scores take a little more than the formula, and noise is a few per cent.
        assert need.items == pytest.approx(need.formula, abs=3 * need.error + 0.03 * need.formula)
        assert need.verdicts == need.items * need.raters
        assert need.cautious >= need.items
    # With one rater both models are one.
    assert needs[1, 0.8].other_model == pytest.approx(needs[1, 0.8].items, abs=5 * needs[1, 0.8].error)


def test_several_criteria_take_more():
    one, six = (
        equivalence_needs(PlanningQuestion(raters=(3,), studies=500, criteria=criteria), 0.1)[0]
        for criteria in (1, 6)
    )
    # α/6: (z for .05/6 + 1.2816)² over (1.6449 + 1.2816)².
    ratio = (
        (stats.norm.ppf(1 - 0.05 / 6) + stats.norm.ppf(0.9)) / (stats.norm.ppf(0.95) + stats.norm.ppf(0.9))
    ) ** 2
    assert six.formula / one.formula == pytest.approx(ratio)
    assert six.items > one.items


def test_the_command(capsys):
    command(margin=0.1, raters="3", studies=500)
    shown = capsys.readouterr().out.replace("\u00a0", " ")
    assert "To show that a win share is within 10 points of 50 %" in shown
    assert "Next: guard-eval new" in shown
    command(margin=0.1, raters="3", studies=500, power=0.85, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [need["power"] for need in found["needs"]] == [0.8, 0.85, 0.9]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"margin": 0.5}, "give --margin such as 0.05"),
        ({"margin": 0.1, "rater_sd": 0.05}, "leave --rater-sd out"),
        ({"margin": 0.1, "judge_r": 0.5}, "leave --judge-r out"),
        ({"margin": 0.1, "ties": 1.0}, "1 ties do not go with"),
        ({"margin": 0.0005}, "plan for a larger margin"),
    ],
)
def test_bad_input(options, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        command(**options)
