"""A model with dearer tokens in long requests: each request is priced by itself."""

import pytest

from guard_eval.study.judge_settings import Judge
from judge.providers.price import find_price


def test_only_a_long_request_is_dear_and_the_usual_price_is_named():
    """GPT-6.1 Sol: $2 and $10 a million tokens; beyond 272,000 tokens of input in a request, $4 and $15."""
    price = find_price(Judge(model="gpt-6.1-sol"), "https://api.openai.com/v1")
    assert price.usd(272_000, 1000) == pytest.approx(0.272 * 2 + 0.001 * 10)
    assert price.usd(272_001, 1000) == pytest.approx(0.272001 * 4 + 0.001 * 15)
    assert str(price).startswith("$2 in, $10 out per million tokens; in a batch $1 in, $5 out")
