"""Strategies: parsing, signatures, errors."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import expect_refusal

from guard_eval.generation.strategies import (
    STRATEGIES,
    Chain,
    ContrastiveSearch,
    Dry,
    Guard,
    MinP,
    Temperature,
    TopK,
    TopP,
    Typical,
    parse,
    signature,
)

PAGE = Path(__file__).parents[2] / "docs" / "decoding.md"


def test_default_parameters_equal_the_papers():
    assert [signature(kind()) for kind in STRATEGIES.values()] == [
        *("greedy", "beam(beams=5)", "temperature(tau=0.9)", "top_k(k=50)", "top_p(p=0.95)"),
        *("typical(tau=0.2)", "min_p(p=0.1)", "epsilon(epsilon=0.0009)", "eta(epsilon=0.0009)"),
        *("top_n_sigma(n=1)", "p_less", "mirostat(tau=3, eta=1)", "repetition_penalty(penalty=1.2)"),
        *("frequency_penalty(penalty=0.5)", "presence_penalty(penalty=0.5)", "no_repeat_ngram(n=3)"),
        "dry(multiplier=0.8, base=1.75, allowed_length=2)",
        "contrastive_decoding(alpha=0.1, amateur_tau=0.5, beams=5, amateur_prompt=last)",
        *("adaptive(epsilon=0.001)", "contrastive(k=10, alpha=0.6)", "acs(q=1)", "guard"),
    ]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_signature_is_parsed_back(name):
    strategy = STRATEGIES[name]()
    assert parse(signature(strategy)) == strategy == parse(name)


@given(st.integers(1, 10**6), st.floats(0, 1, allow_nan=False), st.floats(1e-300, 1e300))
def test_signatures_keep_parameter_values(k, alpha, tau):
    assert parse(signature(ContrastiveSearch(k=k, alpha=alpha))) == ContrastiveSearch(k=k, alpha=alpha)
    assert parse(signature(Temperature(tau=tau))) == Temperature(tau=tau)


@pytest.mark.parametrize(
    "name", ["min_p(p={})", "contrastive(k=10, alpha={})", "frequency_penalty(penalty={})"]
)
def test_signatures_write_minus_zero_as_zero(name):
    assert signature(parse(name.format("-0.0"))) == name.format("0")


def test_signatures_show_changed_neutral_parameters():
    assert str(Guard(window=4, decay=0.9)) == "guard(window=4, decay=0.9)"
    assert str(Guard(formulation="released", select="sample")) == "guard(formulation=released, select=sample)"
    assert str(TopK(k=7, temperature=0.7)) == "top_k(k=7, temperature=0.7)"
    assert str(TopP(temperature=1)) == "top_p(p=0.95)"
    assert str(Typical(tau=0.3)) == "typical(tau=0.3)"
    assert str(MinP(temperature=2)) == "min_p(p=0.1, temperature=2)"


def test_parse_accepts_quotes_and_any_parameter_order():
    assert parse(" contrastive( alpha=0.6,k = 10 ) ") == ContrastiveSearch()
    strategy = Guard(formulation="algorithm1", aggregation="mean", mapping="log")
    assert parse("guard(formulation=algorithm1, aggregation=mean, mapping=log)") == strategy
    assert parse("""guard(formulation='algorithm1', aggregation="mean", mapping=log)""") == strategy


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topk", "unknown strategy 'topk': did you mean 'top_k'?"),
        ("guard(windw=3)", "has no parameter 'windw': did you mean 'window'?"),
        ("greedy(k=3)", "has no parameter 'k': it takes none"),
        ("top_k(k=0)", "k = 0 must be greater than or equal to 1"),
        ("beam(B=3)", "has no parameter 'B': choose from: beams, length_penalty"),
        ("top_k(k=3, k=4)", "gives k twice"),
        ("temperature(tau=1e999)", "tau = inf must be a finite number"),
        ("temperature(tau=1" + "0" * 400 + ")", "must be a valid number"),
        ("top_k(temperature=0)", "temperature = 0 must be greater than 0"),
        ("top_p(p=much)", "p = 'much' must be a valid number"),
        ("guard(formulation=release)", "formulation = 'release' is unknown: did you mean 'released'?"),
        ("top_k(k=1+x)", "cannot read the strategy 'top_k(k=1+x)': write it as name"),
        ("top_k(50)", "write it as name or name(parameter=value"),
        ("top_k(k=__import__('os'))", "with numbers and words"),
        ("top_k(**{'k': 3})", "write it as name or name(parameter=value"),
        ("top_k(", "cannot read the strategy"),
        ("(" * 5000, "cannot read the strategy"),
        ("", "cannot read the strategy"),
        ("dry + greedy", "greedy cannot be combined with +"),
        ("guard + top_p", "guard cannot be combined with +"),
        ("top_p + beam", "it chooses the token itself"),
        ("dry + min_o", "unknown strategy 'min_o': did you mean 'min_p'?"),
        ("dry + min_p(q=1)", "has no parameter 'q'"),
        ("dry - min_p", "cannot read the strategy"),
        ("+ dry", "cannot read the strategy"),
        (
            " + ".join(["top_p(p=0.123)"] * 14),
            "characters, but file names allow only 200",
        ),
        ("no_repeat_ngram(n=9223372036854775808)", "must be less than or equal to 1000000"),
        ("guard(window=1000000000000)", "must be less than or equal to 1000000"),
        ("mirostat(eta=1e308)", "must be less than or equal to 100"),
        ("beam(beams=9223372036854775808)", "must be less than or equal to 1000"),
        ("epsilon(epsilon=1)", "epsilon = 1 must be less than 1"),
        ("beam(length_penalty=-100)", "length_penalty = -100 must be greater than or equal to -5"),
        ("contrastive_decoding(amateur_tau=1e-300)", "must be greater than or equal to 0.01"),
    ],
)
def test_bad_signatures_are_refused_with_a_remedy(text, says):
    with expect_refusal(re.escape(says)):
        parse(text)


def test_every_signature_of_a_chain_is_parsed_back():
    text = "dry(multiplier=0.8, base=1.75, allowed_length=2) + min_p(p=0.05) + temperature(tau=0.8)"
    chain = Dry() + MinP(p=0.05) + Temperature(tau=0.8)
    assert chain == Chain(steps=(Dry(), MinP(p=0.05), Temperature(tau=0.8)))
    assert str(chain) == text
    assert parse(text) == chain == parse(" dry+min_p(p=.05) +temperature( tau=0.8)")
    assert parse("dry + (min_p(p=0.05) + temperature(tau=0.8))") == chain
    assert Dry() + parse("min_p(p=.05) + temperature(tau=.8)") == chain
    assert parse("temperature + dry") != parse("dry + temperature")  # an order is a strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_documentation_lists_each_strategy(name):
    assert re.search(rf"^\|.*`{name}[(`]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TopK(k=2.5), "top_k: k = 2.5 must be a whole number; the default is 50"),
        (lambda: TopK(k="3"), "top_k: k = '3' must be a whole number"),
        (lambda: TopP(p=None), "top_p: p = None must be a valid number"),
        (lambda: TopP(p=math.nan), "top_p: p = nan must be a finite number"),
        (lambda: Guard(window=7.0), "guard: window = 7.0 must be a whole number"),
        (lambda: Guard() + TopK(), "guard cannot be combined with +"),
    ],
)
def test_bad_parameters_are_refused_with_a_remedy(make, says):
    with expect_refusal(re.escape(says)):
        make()


def test_strategies_accept_numpy_numbers():
    import numpy as np

    assert str(TopK(k=np.int64(3))) == "top_k(k=3)"
    assert str(TopP(p=np.float32(0.5))) == "top_p(p=0.5)"
