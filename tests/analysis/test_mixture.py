"""Planning people assisted by a judge: hand arithmetic, limits, and the command."""

import json
import re

import pytest

from analysis.planning.mixture import mixtures
from analysis.planning.question import PlanningQuestion
from guard_eval.cli.console import speaking
from guard_eval.cli.power import command
from guard_eval.errors import StudyError

ONE = PlanningQuestion(share=0.55, ties=0.0, agreement=0.0, raters=(1,))


def test_by_hand():
    # one rater without ties: variance .55 · .45
    (found,) = mixtures(
        ONE, 0.6, human_pairs=[150], judge_pairs=[1000], rating_price=0.5, judgment_price=0.01
    )
    worth = 150 / (1 - 0.36 * 0.85)
    assert (found.effective, found.gained) == pytest.approx((worth, worth - 150))
    t = 1.9760132  # 97.5 % of t with 149 degrees of freedom
    assert found.alone == pytest.approx(t * (0.55 * 0.45 / 150) ** 0.5, rel=1e-5)
    assert found.assisted == pytest.approx(t * (0.55 * 0.45 / worth) ** 0.5, rel=1e-5)
    assert found.price == pytest.approx(150 * 0.5 + 1000 * 0.01)


def test_what_helps_and_what_does_not():
    question = PlanningQuestion(raters=(1, 3))
    none = mixtures(question, 0.0, human_pairs=[50, 150], judge_pairs=[1000])
    assert all(one.assisted == one.alone and one.gained == 0 for one in none)
    assert [(one.raters, one.human_pairs) for one in none] == [(1, 50), (1, 150), (3, 50), (3, 150)]
    some, more = mixtures(question, 0.7, human_pairs=[150], judge_pairs=[500, 5000])[:2]
    assert more.assisted < some.assisted < some.alone
    assert more.power > some.power > some.power_alone
    # people on all pairs: nothing to gain
    (full,) = mixtures(ONE, 0.9, human_pairs=[150], judge_pairs=[150])
    assert full.gained == 0
    assert full.price is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"judge_r": 1.2}, "a judge's r of 1.2: give a correlation"),
        ({"judge_r": 0.6, "human_pairs": "150", "judge_pairs": "100"}, "the judge no fewer than people"),
        ({"judge_r": 0.6, "human_pairs": "many"}, "--human-pairs 'many'"),
        ({"judge_r": 0.6, "rating_price": -1.0}, "a rating at -1"),
        ({"judge_r": 0.6, "output": "a.svg"}, "leave it out with --judge-r"),
    ],
)
def test_bad_input(options, why):
    with pytest.raises(StudyError, match=re.escape(why)):
        command(**options)


def test_the_command(capsys):
    with speaking():
        command(judge_r=0.6, human_pairs="150", judge_pairs="1000", rating_price=0.3, judgment_price=0.002)
    shown = capsys.readouterr().out
    assert "r = 0.6" in shown
    assert "216" in shown
    assert "137.00" in shown
    command(judge_r=0.6, human_pairs="150,300", as_json=True)
    assert [one["human_pairs"] for one in json.loads(capsys.readouterr().out)] == [150, 300]
