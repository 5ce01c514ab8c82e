"""What a study declares before its verdicts: people's part, and one for each judge."""

import pytest

from guard_eval.records import PEOPLE, settings_part
from guard_eval.study.declared import compare_declared
from guard_eval.study.folder import Study

STUDY = """
name = "s"
seed = 3
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
[pairs]
compare = [["guard", "greedy"]]
[criteria.wit]
title = "Wit"
definition = "How witty it is."
[annotation]
criteria = ["fluency"]
wording = "own.toml"
[analysis]
alpha = 0.05
[[judge]]
name = "j"
model = "m"
criteria = ["fluency", "wit"]
"""
JUDGE = settings_part("j", "model")


@pytest.fixture
def changes(tmp_path):
    """Return what changes each part's hash when study.toml, or a file beside it, is edited."""

    def declared(text, wording='[consent]\nlead = "Ahoi"\n'):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        (tmp_path / "own.toml").write_text(wording, encoding="utf-8")
        return Study.open(tmp_path).declared

    def edit(old, new, **files):
        assert old in STUDY
        parts = compare_declared(declared(STUDY.replace(old, new), **files), declared(STUDY))
        return {
            part.name: part.changes for part in parts if part.first_hash not in {None, part.hash}
        }  # fmt: skip

    return edit


@pytest.mark.parametrize(
    "lines",
    [
        "concurrency = 7",
        "timeout = 5.0",
        "usd_per_million_input_tokens = 1.0\nusd_per_million_output_tokens = 2.0",
        'api_key_env = "MY_KEY"',
        '[[judge]]\nmodel = "another"',
    ],
)
def test_what_only_sends_requests_changes_no_part(changes, lines):
    assert changes('model = "m"\n', f'model = "m"\n{lines}\n' if "[[" not in lines else 'model = "m"\n') == {}
    assert changes('"wit"]\n', f'"wit"]\n{lines}\n') == {}


def test_a_judges_setting_changes_its_own_part_alone(changes):
    assert changes('model = "m"', 'model = "m"\ntemperature = 1') == {
        JUDGE: ("judge.temperature from none to 1.0",)
    }
    assert changes("How witty it is.", "How funny it is.") == {
        JUDGE: ('criteria.wit.definition from "How witty it is." to "How funny it is."',)
    }


def test_what_people_see_changes_their_part(changes):
    result = changes("seed = 3", "seed = 3 ", wording='[panel]\na = "Left is worse"\n')
    assert list(result) == [PEOPLE]
    (change,) = result[PEOPLE]
    assert change.startswith("annotation.wording.text from ")
    assert "Left is worse" in change
    assert changes('criteria = ["fluency"]', 'criteria = ["fluency", "coherence"]') == {
        PEOPLE: ('annotation.criteria from ["fluency"] to ["fluency", "coherence"]',)
    }


def test_what_all_were_told_to_compare_changes_every_part(changes):
    result = changes("alpha = 0.05", "alpha = 0.01")
    assert result == dict.fromkeys([PEOPLE, JUDGE], ("analysis.alpha from 0.05 to 0.01",))


def test_where_a_study_runs_changes_nothing(changes):
    assert changes('name = "bundled"', 'name = "bundled"\ndevice = "cpu"') == {}
    assert (
        changes('strategies = ["greedy", "guard"]', 'strategies = ["greedy", "guard"]\nbatch_size = 3') == {}
    )
    assert changes("[analysis]", "[metrics]\nmauve_seeds = 3\n[analysis]") == {}
