"""Strategies: parsing, signatures, errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.strategies import STRATEGIES, ContrastiveSearch, Guard, TopK, TopP, parse, signature


def test_the_papers_defaults():
    assert [signature(kind()) for kind in STRATEGIES.values()] == [
        "greedy",
        "temperature(tau=0.9)",
        "top_k(k=50)",
        "top_p(p=0.95)",
        "contrastive(k=10, alpha=0.6)",
        "acs(q=1)",
        "guard",
    ]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_signature_reads_back(name):
    strategy = STRATEGIES[name]()
    assert parse(signature(strategy)) == strategy == parse(name)


@given(st.integers(1, 10**6), st.floats(0, 1, allow_nan=False))
def test_signatures_keep_their_values_to_six_digits(k, alpha):
    read = parse(signature(ContrastiveSearch(k=k, alpha=alpha)))
    assert read.k == k
    assert read.alpha == pytest.approx(alpha, rel=1e-5, abs=1e-12)


def test_order_and_spaces_do_not_matter():
    assert parse(" contrastive( alpha=0.6,k = 10 ) ") == ContrastiveSearch()


def test_guard_shows_only_what_differs():
    assert str(Guard(window=4, decay=0.9)) == "guard(window=4, decay=0.9)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topk", "unknown strategy 'topk': did you mean 'top_k'?"),
        ("guard(windw=3)", "has no parameter 'windw': did you mean 'window'?"),
        ("greedy(k=3)", "has no parameter 'k': it takes none"),
        ("top_k(k=0)", "k = 0 is out of range; it must be at least 1"),
        ("top_p(p=0)", "it must be above 0 and at most 1"),
        ("top_k(k=2.5)", "k = 2.5 must be a whole number"),
        ("top_k(k=True)", "k = True must be a whole number"),
        ("top_p(p='x')", "p = 'x' must be a number"),
        ("top_k(50)", "write it as name or name(parameter=value"),
        ("top_k(k=__import__('os'))", "cannot read 'k'"),
        ("top_k(", "cannot read the strategy"),
        ("", "cannot read the strategy"),
    ],
)
def test_bad_strategies_are_named_with_a_remedy(text, says):
    with pytest.raises(StudyError) as error:
        parse(text)
    assert says in str(error.value)


def test_values_are_what_they_say():
    assert parse("top_k(k=7)") == TopK(k=7)
    assert parse("top_p(p=1)") == TopP(p=1.0)
