"""The choice of one setting by a rule in [tuning]. The expected choices are computed by hand."""

import numpy as np
import pytest

from guard_eval.estimate import divide_sums
from guard_eval.metrics.inference import estimate_differences
from guard_eval.metrics.outcomes import Outcome
from guard_eval.metrics.tuning import TriedSettings
from guard_eval.study.tuning import Tuning

SAME = [1.0, 2, 3, 4]


def outcomes_of(settings, dataset="d"):
    """Return an outcome for each setting and score: the mean of one value for each prompt."""
    outcomes = {}
    for name, scores in settings.items():
        for score, values in scores.items():
            parts = np.array([[value or 0.0, value is not None] for value in values], dtype=float)
            outcomes[score, dataset, name] = Outcome(
                metric=score,
                dataset=dataset,
                strategy=name,
                prompt_indices=np.arange(len(parts)),
                runs=1,
                value=0.0,  # what is chosen rests on the parts
                n=1,
                counts={},
                note="",
                signature="",
                parts=parts,
                function=divide_sums,
                noise=0.0,
            )
    return outcomes


def search(rule, **settings):
    """Choose a setting by a rule. Each setting has the values of the prompts, by score."""
    size = len(next(iter(next(iter(settings.values())).values())))
    scored = {name: {"diversity": [100.0] * size} | scores for name, scores in settings.items()}
    tried = TriedSettings(
        names=list(settings), outcomes=outcomes_of(scored), rule=Tuning(prompts=4, **rule), sizes={"d": size}
    )
    return tried.choose_setting("s", seed=1)


@pytest.mark.parametrize(
    ("maximize", "chosen"),
    [("coherence", "b"), ("perplexity", "a")],
    ids=["more is better", "less is better"],
)
def test_the_best_setting_is_chosen_by_metric_direction(maximize, chosen):
    result = search({"maximize": maximize}, a={maximize: SAME}, b={maximize: [2, 3, 4, 5]})
    assert result.chosen == chosen
    assert [setting.scores[maximize] for setting in result.settings] == [2.5, 3.5]


def test_the_first_of_tied_settings_is_chosen():
    tenths = [0.1, 0.2, 0.3, 0.0]  # 0.1 + 0.2 + 0.3 is no multiple of a tenth in every order
    result = search({"maximize": "coherence"}, a={"coherence": tenths}, b={"coherence": tenths[::-1]})
    assert result.chosen == "a"
    swapped = search({"maximize": "coherence"}, b={"coherence": tenths[::-1]}, a={"coherence": tenths})
    assert swapped.chosen == "b"


def test_a_setting_that_misses_a_condition_is_not_chosen():
    rule = {"maximize": "coherence", "where": ["diversity >= 90", "words <= 20"]}
    good = {"coherence": SAME, "diversity": [90.0] * 4, "words": [20.0] * 4}
    dull = {"coherence": [9.0] * 4, "diversity": [89.9] * 4, "words": [20.0] * 4}
    long = {"coherence": [9.0] * 4, "diversity": [99.0] * 4, "words": [21.0] * 4}
    result = search(rule, dull=dull, good=good, long=long)
    assert result.chosen == "good"
    assert [setting.meets for setting in result.settings] == [False, True, False]
    assert result.expected_best[-1] == pytest.approx(2.5, abs=0.1)


def test_nothing_is_chosen_if_all_settings_miss_a_condition():
    result = search(
        {"maximize": "coherence", "where": ["diversity >= 90"]},
        a={"coherence": SAME, "diversity": [10.0] * 4},
        b={"coherence": SAME, "diversity": [20.0] * 4},
    )
    assert result.chosen == ""
    assert result.expected_best == [None, None]
    assert [setting.chosen_share for setting in result.settings] == [0, 0]


def test_a_setting_with_an_undefined_score_is_never_chosen():
    result = search({"maximize": "coherence"}, a={"coherence": [None] * 4}, b={"coherence": [-9.0] * 4})
    assert result.chosen == "b"
    assert result.settings[0].scores["coherence"] is None


def test_datasets_have_equal_weight_in_the_choice():
    """The means of two datasets, 1 and 4, give (1 + 4) / 2 = 2.5, which is less than 3."""
    scores = {"uneven": {"coherence": [1.0]}, "even": {"coherence": [3.0]}}
    three = {"uneven": {"coherence": [4.0, 4, 4]}, "even": {"coherence": [3.0, 3, 3]}}
    outcomes = outcomes_of(scores, "e") | outcomes_of(three, "f")
    rule = Tuning(prompts=4, maximize="coherence")
    tried = TriedSettings(names=list(scores), outcomes=outcomes, rule=rule, sizes={"e": 1, "f": 3})
    result = tried.choose_setting("s", seed=1)
    assert result.chosen == "even"
    assert result.settings[0].scores == {"coherence": 2.5, "diversity": None}


def test_a_score_at_the_limit_meets_a_condition():
    """The mean of 36/3, 31/3, 31/3 and 22/3 is 10, and a little more in binary fractions."""
    outcomes = {}
    for dataset, total in {"e": 16, "f": 11, "g": 11, "h": 2}.items():
        outcomes |= outcomes_of({"a": {"diversity": [90.0] * 3, "words": [total, 10, 10]}}, dataset)
    rule = Tuning(prompts=3, maximize="diversity", where=["words <= 10"])
    tried = TriedSettings(names=["a"], outcomes=outcomes, rule=rule, sizes=dict.fromkeys("efgh", 3))
    assert tried.choose_setting("s", seed=1).settings[0].meets


def test_resamples_estimate_the_share_of_each_choice():
    """Setting b is better only if the second of two prompts is drawn twice: in a quarter of the resamples."""
    result = search({"maximize": "coherence"}, a={"coherence": [4.0, 1]}, b={"coherence": [1.0, 3.9]})
    assert result.chosen == "a"
    assert result.settings[1].chosen_share == pytest.approx(0.25, abs=0.04)


def test_expected_best_score_does_not_rise_for_equal_settings(monkeypatch):
    """The best of ten equal settings on 40 prompts is 1.54 / √40 = .24 above the mean."""
    monkeypatch.setattr("guard_eval.metrics.tuning.RESAMPLES", 100)
    rng = np.random.default_rng(3)
    best, curves = [], []
    for _ in range(60):
        values = rng.normal(size=(10, 40))
        settings = {f"s{n}": {"coherence": row.tolist()} for n, row in enumerate(values)}
        result = search({"maximize": "coherence"}, **settings)
        best.append(max(setting.scores["coherence"] for setting in result.settings))
        curves.append(result.expected_best)
    assert np.mean(best) == pytest.approx(1.54 / 40**0.5, abs=0.03)
    assert np.abs(np.mean(curves, axis=0)).max() < 0.06


def test_p_value_of_the_best_setting_is_corrected():
    """For the gains 1, 1, 1 and 1, 1, −1, the larger sum under 4 sign flips is 3, 1, 1 and 3."""
    scores = {"base": [0.0, 0, 0], "a": [1.0, 1, 1], "b": [1.0, 1, -1]}
    outcomes = outcomes_of({name: {"coherence": values} for name, values in scores.items()})
    alone = estimate_differences(outcomes, "base", level=0.5)
    assert {row.strategy: row.p_value for row in alone} == {"a": 2 / 8, "b": 1}
    [row] = estimate_differences(outcomes, "base", level=0.5, searches={"a": ["a", "b"]})
    assert (row.strategy, row.p_value, row.p_holm) == ("a", 2 / 4, 2 / 4)
    assert row.method == "no interval; max-T test, best of 2, corrected for the search"
    assert row.low is row.high is None
