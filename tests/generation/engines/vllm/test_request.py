"""Requests that name strategies, and requests that are refused."""

import re

import pytest
from fake_vllm import parameters
from refusals import expect_refusal

from guard_eval.generation.decoding.noise import make_row_key
from guard_eval.generation.engines.vllm.request import make_extra_args, read_strategy_request
from guard_eval.generation.strategies import Guard, TopP


def test_requests_without_a_strategy_are_ignored():
    assert read_strategy_request(parameters()) is None
    assert read_strategy_request(parameters({})) is None
    others = {"guard": 1, "guardian": "x", "other": {"a": 1}}
    assert read_strategy_request(parameters(others, presence_penalty=1.0)) is None


def test_a_request_names_a_strategy_by_signature():
    result = read_strategy_request(parameters({"guard_eval": "guard(window=4, formulation=released)"}))
    assert result.strategy == Guard(window=4, formulation="released")
    assert result.key == 0


def test_random_key_of_a_vllm_request_equals_other_engines():
    arguments = make_extra_args(TopP(p=0.9), seed=7, prompt_id="wiki-1")
    assert arguments == {"guard_eval": "top_p(p=0.9)", "guard_eval_seed": 7, "guard_eval_prompt_id": "wiki-1"}
    result = read_strategy_request(parameters(arguments))
    assert result.key == make_row_key(7, "wiki-1", "top_p(p=0.9)")
    second = read_strategy_request(
        parameters(make_extra_args(TopP(p=0.9), seed=7, prompt_id="wiki-1", run=2))
    )
    assert second.key == make_row_key(7, "wiki-1", "top_p(p=0.9)", 2) != result.key
    anonymous = read_strategy_request(
        parameters({"guard_eval": "guard(select=sample)", "guard_eval_seed": 7})
    )
    assert anonymous.key == make_row_key(7, "", "guard(select=sample)")


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ({"guard_eval": "gaurd"}, {}, "did you mean 'guard'"),
        ({"guard_eval": "guard(windw=7)"}, {}, "did you mean 'window'"),
        ({"guard_eval": 7}, {}, "guard_eval = 7 must be a strategy's signature"),
        ({"guard_eval_seed": 7}, {}, "guard_eval = None must be a strategy's"),
        ({"guard_eval": "guard", "guard_eval_run": 0}, {}, "guard_eval_run = 0 must be a whole number"),
        ({"guard_eval": "guard", "guard_eval_sed": 7}, {}, "'guard_eval_sed' is unknown"),
        ({"guard_eval": "top_p(p=0.9)"}, {}, "add guard_eval_seed"),
        (
            {"guard_eval": "top_p(p=0.9)", "guard_eval_seed": 1.5},
            {},
            "guard_eval_seed = 1.5 must be a whole number",
        ),
        ({"guard_eval": "top_p(p=0.9)", "guard_eval_seed": True}, {}, "must be a whole number"),
        ({"guard_eval": "guard", "guard_eval_prompt_id": 3}, {}, "guard_eval_prompt_id = 3 must be a text"),
        ({"guard_eval": "contrastive(k=5, alpha=0.6)"}, {}, "--engine local"),
        ({"guard_eval": "acs"}, {}, "which gives plug-ins only the logits of each step"),
        ({"guard_eval": "contrastive_decoding"}, {}, "--engine local"),
        ({"guard_eval": "beam"}, {}, "does not run on vLLM"),
        ({"guard_eval": "guard"}, {"presence_penalty": 0.5}, "presence_penalty = 0.5"),
        ({"guard_eval": "guard"}, {"repetition_penalty": 1.1}, "set repetition_penalty = 1"),
        ({"guard_eval": "guard"}, {"thinking_token_budget": 9}, "thinking_token_budget"),
    ],
)
def test_bad_requests_are_refused_with_a_remedy(arguments, changes, message):
    with expect_refusal(re.escape(message)):
        read_strategy_request(parameters(arguments, **changes))
