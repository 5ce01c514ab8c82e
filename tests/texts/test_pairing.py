"""Pairs: drawn by seed, balanced by position, never moved."""

from collections import Counter
from dataclasses import replace

import pytest
from factories import continuation, recipe
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study.settings import Pairs
from guard_eval.texts import pairing
from guard_eval.texts.pairing import choose_prompts_for_people, draw_prompts, drop_repeated_prompts

PROMPTS = [Prompt(id=f"{d}-{i}", dataset=d, text=f"{d} {i}") for d in ("news", "tales") for i in range(20)]


def continuations(strategy, prompts=PROMPTS):
    return {p.id: continuation(f"{strategy} on {p.id}", p, recipe(strategy=strategy)) for p in prompts}


MADE = {name: continuations(name) for name in ("guard", "acs(q=1)", "greedy")}


def make_pairs(prompts, texts, compare, *, human_pairs=None, **more):
    plan = Pairs.model_construct(compare=compare, human_pairs=human_pairs)
    return pairing.make_pairs(prompts, texts, plan, **more)


def test_prompt_draw_is_stratified_and_ignores_file_order():
    drawn = draw_prompts(PROMPTS, per_dataset=5, seed=1)
    assert Counter(p.dataset for p in drawn) == {"news": 5, "tales": 5}
    assert draw_prompts(PROMPTS[::-1], per_dataset=5, seed=1) == drawn
    assert draw_prompts(PROMPTS, per_dataset=5, seed=2) != drawn


def test_repeated_prompts_are_dropped():
    texts = {"1": "Once\nthere", "2": "Once\r\nthere ", "3": "Once upon", "4": "Once upon"}
    prompts = [Prompt(id=f"{d}{n}", dataset=d, text=text) for d in "ab" for n, text in texts.items()]
    assert [prompt.id for prompt in drop_repeated_prompts(prompts)] == ["a1", "a3", "b1", "b3"]


@given(st.integers(1, 25), st.integers(1, 25), st.integers())
def test_larger_draw_contains_smaller_draw(few, many, seed):
    few, many = sorted((few, many))
    smaller = {p.id for p in draw_prompts(PROMPTS, per_dataset=few, seed=seed)}
    assert smaller <= {p.id for p in draw_prompts(PROMPTS, per_dataset=many, seed=seed)}


def test_pair_joins_texts_of_one_prompt_with_balanced_sides():
    pairs = make_pairs(PROMPTS, MADE, [["guard", "acs(q=1)"], ["guard", "greedy"]], seed=1)
    assert sorted(pair.position for pair in pairs) == list(range(80))
    for pair in pairs:
        assert (pair.text_a, pair.text_b) == tuple(
            f"{m} on {pair.prompt_id}" for m in (pair.method_a, pair.method_b)
        )
    assert set(Counter((pair.method_b, pair.dataset, pair.position % 2) for pair in pairs).values()) == {10}


def test_added_prompts_do_not_change_existing_pairs():
    first = make_pairs(draw_prompts(PROMPTS, per_dataset=7, seed=1), MADE, [["guard", "greedy"]], seed=1)
    more = make_pairs(
        draw_prompts(PROMPTS, per_dataset=9, seed=1), MADE, [["guard", "greedy"]], seed=1, existing=first
    )
    assert {pair.id: pair for pair in first}.items() <= {pair.id: pair for pair in more}.items()
    assert len({pair.position for pair in more}) == len(more) == 18


def test_changed_text_makes_a_changed_pair():
    first = make_pairs(PROMPTS[:2], MADE, [["guard", "greedy"]], seed=1)
    name = PROMPTS[0].id
    edited = MADE["guard"] | {name: replace(MADE["guard"][name], text="edited")}
    redrawn = make_pairs(
        PROMPTS[:2], MADE | {"guard": edited}, [["guard", "greedy"]], seed=1, existing=first[::-1]
    )
    changed = [pair for pair in redrawn if pair not in first]
    assert [(pair.prompt_id, pair.text_a) for pair in changed] == [(name, "edited")]
    assert [(pair.id, pair.position) for pair in redrawn] == [(pair.id, pair.position) for pair in first]


def rewrite(texts):
    return {key: replace(text, id=text.id[::-1]) for key, text in texts.items()}


@pytest.mark.parametrize(
    ("per_dataset", "seed", "compare", "texts", "cause"),
    [
        (
            6,
            1,
            ["greedy", "guard"],
            MADE,
            "pairs.compare does not name guard with greedy, in this order. Undo",
        ),
        (
            4,
            1,
            ["guard", "greedy"],
            MADE,
            "prompts.file, pairs.per_dataset, .tuning. or seed give other prompts",
        ),
        (6, 2, ["guard", "greedy"], MADE, "or seed give other prompts of tales. Undo"),
        (
            6,
            1,
            ["guard", "greedy"],
            {**MADE, "greedy": rewrite(MADE["greedy"])},
            "guard or greedy wrote other",
        ),
    ],
)
def test_error_names_the_setting_that_changed_the_pairs(per_dataset, seed, compare, texts, cause):
    before = make_pairs(draw_prompts(PROMPTS, per_dataset=6, seed=1), MADE, [["guard", "greedy"]], seed=1)
    prompts = draw_prompts(PROMPTS, per_dataset=per_dataset, seed=seed)
    with pytest.raises(StudyError, match=f"of 12 pairs in the database: .*{cause}"):
        make_pairs(prompts, texts, [compare], seed=1, existing=before)


@given(st.integers(2, 45), st.integers(1, 20), st.integers())
def test_people_rate_a_random_part_of_each_comparison(count, tales, seed):
    prompts = draw_prompts(PROMPTS[: 20 + tales], per_dataset=20, seed=seed)
    compare = [["guard", "acs(q=1)"], ["guard", "greedy"]]
    pairs = make_pairs(prompts, MADE, compare, seed=seed, human_pairs=count)
    parts = [[p for p in pairs if p.method_b == b and p.for_people] for _, b in compare]
    total = 20 + tales
    for sample in parts:
        assert len(sample) == min(count, total)
        assert abs(sum(p.dataset == "news" for p in sample) - min(count, total) * 20 / total) <= 0.5
    assert {p.prompt_id for p in parts[0]} == {p.prompt_id for p in parts[1]}
    # who rates fewer pairs rates some of the same
    fewer = make_pairs(prompts, MADE, compare, seed=seed, human_pairs=max(2, count // 2))
    news = [{p.id for p in chosen if p.for_people and p.dataset == "news"} for chosen in (fewer, pairs)]
    assert news[0] <= news[1]


def test_pairs_for_people_are_random_over_seeds():
    chosen = Counter(
        prompt
        for seed in range(400)
        for prompt in choose_prompts_for_people(draw_prompts(PROMPTS[:20], per_dataset=20, seed=seed), 5)
    )
    # 400 draws of 5 of 20: 100 each, standard deviation 8.7
    assert len(chosen) == 20
    assert 65 < min(chosen.values()) <= max(chosen.values()) < 135


def test_pairs_for_people_stay_the_same_after_extension():
    compare = [["guard", "greedy"]]
    first = make_pairs(PROMPTS, MADE, compare, seed=1, human_pairs=10)
    assert make_pairs(PROMPTS, MADE, compare, seed=1, human_pairs=10, existing=first) == first
    for count in (12, None):
        with pytest.raises(StudyError, match=r"of 40 pairs .*: pairs.human_pairs gives people other pairs"):
            make_pairs(PROMPTS, MADE, compare, seed=1, human_pairs=count, existing=first)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_redrawing_pairs_takes_linear_time():
    """With quadratic time, 8 000 pairs took 11 s, and these would take eight minutes."""
    text, prompts = continuation(), [Prompt(id=f"p{i}", dataset="d", text="t") for i in range(50_000)]
    by_id = {
        name: {p.id: replace(text, id=f"{name}{p.id}", prompt_id=p.id) for p in prompts}
        for name in ("guard", "greedy")
    }
    first = make_pairs(prompts, by_id, [["guard", "greedy"]], seed=1)
    assert make_pairs(prompts, by_id, [["guard", "greedy"]], seed=1, existing=first) == first
    assert len(first) == 50_000


def test_texts_too_long_for_a_page_are_refused():
    """A page holds 19 MB of JSON, in which an Arabic letter takes six bytes."""

    def make(text):
        prompt, texts = PROMPTS[0], {name: dict(MADE[name]) for name in ("guard", "greedy")}
        texts["greedy"][prompt.id] = replace(texts["greedy"][prompt.id], text=text)
        return make_pairs([prompt], texts, [["guard", "greedy"]], seed=1)

    assert len(make("a" * 18_000_000)) == 1
    for text in ("a" * 20_000_000, "ع" * 3_400_000):
        with pytest.raises(StudyError, match=r"prompt 'news-0' \(news\) are too long for a rater's page"):
            make(text)
