"""What a study declares before its verdicts: people's part, and one for each judge."""

import pytest

from guard_eval.records import PEOPLE, find_declared_part_of_rater
from guard_eval.study.declared import compare_declared_parts

JUDGE = find_declared_part_of_rater("j", "model")
TABLE = "name='j', model='m', criteria=['fluency', 'wit']"
OWN_WORDING = '[consent]\nlead = "Ahoi"\n'


@pytest.fixture
def changes(study):
    """Return what changes each part when settings, or a file beside them, are changed."""

    def declared(*assignments, wording=OWN_WORDING):
        base = ["annotation={criteria=['fluency'], wording='own.toml'}", f"judge=[{{{TABLE}}}]"]
        return study(*base, *assignments, own__toml=wording).declared

    def compare(*assignments, **files):
        parts = compare_declared_parts(declared(*assignments, **files), declared())
        return {
            declaration.name: declaration.changes
            for declaration in parts
            if declaration.first_hash not in {None, declaration.hash}
        }

    return compare


@pytest.mark.parametrize(
    "assignment",
    [
        *("judge[1].concurrency=7", "judge[1].timeout=5.0", "judge[1].api_key_env='MY_KEY'"),
        *("judge[1].usd_per_million_tokens=[1.0, 2.0]", "judge[1].headers={X-Title='a study'}"),
        *("model.device=cpu", "generation.batch_size=3", "metrics.mauve_seeds=3", "license=MIT"),
        "annotation.recruitment.codes.completed=C0DE",
        f"judge=[{{{TABLE}}}, {{model='another'}}]",
    ],
)
def test_device_and_budget_change_no_declared_part(changes, assignment):
    assert changes(assignment) == {}


def test_judge_setting_changes_only_its_declared_part(changes):
    assert changes("judge[1].temperature=1") == {JUDGE: ("judge.temperature from null to 1.0",)}
    assert changes("criteria.wit.definition=How funny it is.") == {
        JUDGE: ('criteria.wit.definition from "How witty it is." to "How funny it is."',)
    }


def test_page_settings_change_the_declared_part_of_people(changes):
    long = OWN_WORDING + "x" * 500
    [(raters, [change])] = changes(wording=f'{long}[panel]\na = "Left is worse"\n').items()
    assert raters == PEOPLE
    assert change.startswith("annotation.wording.text from ")
    assert len(change) < 200
    assert changes("annotation.criteria=['fluency', 'coherence']") == {
        PEOPLE: ('annotation.criteria from ["fluency"] to ["fluency", "coherence"]',)
    }


def test_alpha_changes_every_declared_part(changes):
    alpha = ("analysis.alpha from 0.05 to 0.01",)
    assert changes("analysis.alpha=0.01") == {PEOPLE: alpha, JUDGE: alpha}
