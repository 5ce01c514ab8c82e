"""vLLM with the plug-in writes the same tokens as transformers, in mixed batches and after preemption.

Needs vLLM, which has an environment of its own: `make test-vllm`.
"""

import os
from dataclasses import fields, replace
from pathlib import Path

import fake_vllm
import pytest
import torch
from written_texts import continue_rows, write

pytestmark = pytest.mark.slow

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
vllm = pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")

from guard_eval.generation.decoding.noise import make_row_key  # noqa: E402
from guard_eval.generation.engines.encoding import encode_prompts, list_end_ids  # noqa: E402
from guard_eval.generation.engines.loading import load_pretrained  # noqa: E402
from guard_eval.generation.engines.vllm import generation  # noqa: E402
from guard_eval.generation.strategies import parse, signature  # noqa: E402
from guard_eval.records import Prompt  # noqa: E402
from guard_eval.study.system_settings import GenerationSettings, locate_model  # noqa: E402

SHARED = Path(__file__).parents[4].parent / "shared" / "models"
FORMULATIONS = ["guard", "guard(formulation=algorithm1)", "guard(formulation=released)"]
DRAWN = [
    "guard(select=sample)",
    "temperature(tau=0.8)",
    "top_k(k=20)",
    "top_p(p=0.9)",
    "typical",
    "min_p",
    "adaptive",
    "mirostat",
    "p_less",
    "dry",
    "repetition_penalty + min_p(p=0.05) + temperature(tau=0.8)",
]
TEXTS = [
    "Once upon a time",
    "The dog",
    "Lily and Ben went to the park. They saw a big tree and a small bird that could not fly, so they",
    "One day",
    "Tom had a red ball. He liked to play with it all day. His mom said",
    "She",
    "It was a very cold day and the little cat",
    "Ben",
]
NEW, SEED, AT_ONCE = 80, 3, 4


def start(location, tokens=256, **options):
    """Return vLLM with a model, and the description of the model."""
    described = generation.open_model_without_weights(
        location, name=Path(location).name, revision="main", dtype="auto"
    )
    options = {"max_model_len": tokens, "max_num_seqs": AT_ONCE, "enforce_eager": True, **options}
    return generation.start_vllm(described, location, **options), described


@pytest.fixture(scope="module", params=["bundled", "stories3m"])
def location(request):
    if request.param == "stories3m" and not (SHARED / "stories3m").is_dir():
        pytest.skip(f"{SHARED / 'stories3m'} is not at hand")
    return locate_model("bundled", Path()) if request.param == "bundled" else str(SHARED / "stories3m")


@pytest.fixture(scope="module")
def reference(location):
    return load_pretrained(location)


@pytest.fixture(scope="module")
def rows(reference):
    prompts = [Prompt(id=f"p{n}", dataset="d", text=text) for n, text in enumerate(TEXTS * 2)]
    return encode_prompts(reference, prompts, 64)


@pytest.fixture(scope="module")
def engine(location):
    llm, described = start(location)
    yield llm, described
    llm.llm_engine.engine_core.shutdown()


def by_transformers(loaded, rows, name):
    keys = torch.tensor([make_row_key(SEED, row.prompt.id, signature(parse(name))) for row in rows])
    prompts = [row.ids for row in rows]
    return continue_rows(loaded.model, prompts, name, keys=keys, ends=list_end_ids(loaded), limit=NEW).tokens


def by_vllm(engine, rows, names):
    """Return vLLM's texts for rows with the strategies `names`, written in one run with shared batches."""
    llm, described = engine
    settings = GenerationSettings(max_new_tokens=NEW)
    recipes = [described.make_recipe(parse(name), settings, SEED) for name in names]
    sampling = [
        generation.make_sampling_params(described, recipe, row)
        for recipe, row in zip(recipes, rows, strict=True)
    ]
    outputs = llm.generate([{"prompt_token_ids": row.ids} for row in rows], sampling, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def count_differences(first, second):
    """Count the texts that differ between two engines, whose rounding errors may change a choice."""
    return sum(a != b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ["greedy", *FORMULATIONS])
def test_greedy_and_guard_write_the_tokens_of_transformers(engine, reference, rows, name):
    assert by_vllm(engine, rows, [name] * len(rows)) == by_transformers(reference, rows, name)


@pytest.mark.parametrize("name", DRAWN)
def test_vllm_draws_the_tokens_of_transformers(engine, reference, rows, name):
    tokens = by_vllm(engine, rows, [name] * len(rows))
    assert count_differences(tokens, by_transformers(reference, rows, name)) <= 1


@pytest.mark.parametrize("stop", [(), (" and", ".")], ids=str)
def test_vllm_texts_equal_local_texts_except_recipes(engine, reference, rows, stop):
    llm, described = engine
    limits = {"max_new_tokens": NEW, "max_prompt_tokens": 64, "stop": list(stop)}
    recipe = described.make_recipe(
        parse("guard"), GenerationSettings(**limits), SEED, engine=generation.ENGINE
    )
    expected = {
        text.prompt_id: text
        for batch in write(
            replace(reference, name=described.name),
            [row.prompt for row in rows],
            "guard",
            seed=SEED,
            **limits,
        )
        for text in batch
    }
    texts = [
        text
        for batch in generation.generate_text_chunks(llm, described, rows, recipe)
        for text in batch.texts
    ]
    assert sorted(text.prompt_id for text in texts) == sorted(expected)
    for text in texts:
        twin = expected[text.prompt_id]
        assert text.recipe == replace(twin.recipe, engine="vllm")
        assert text.id != twin.id
        numbers = [
            (continuation.text, continuation.new_tokens, continuation.finish, continuation.prompt_tokens)
            for continuation in (text, twin)
        ]
        assert numbers[0] == numbers[1]


# The last one with a model: to close its engine takes from vLLM what the other one stands on.
def test_preempted_requests_write_equal_texts(location, reference, rows, monkeypatch):
    from vllm.v1.core.sched.scheduler import Scheduler

    set_back = []
    original = Scheduler._preempt_request

    def counted(self, request, *arguments, **options):
        set_back.append(len(request.output_token_ids))
        return original(self, request, *arguments, **options)

    monkeypatch.setattr(Scheduler, "_preempt_request", counted)
    engine = start(location, 128, num_gpu_blocks_override=9, block_size=32, enable_prefix_caching=False)
    try:
        for name in FORMULATIONS:
            assert by_vllm(engine, rows, [name] * len(rows)) == by_transformers(reference, rows, name)
        for name in ("dry + mirostat(tau=2)", "no_repeat_ngram"):
            written = by_vllm(engine, rows, [name] * len(rows))
            assert count_differences(written, by_transformers(reference, rows, name)) <= 1
        assert sum(length > 0 for length in set_back) >= 3
    finally:
        engine[0].llm_engine.engine_core.shutdown()


def test_fake_vllm_has_the_fields_of_vllm():
    from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcRequestState

    def names(kind):
        return [field.name for field in fields(kind)]

    assert names(fake_vllm.BatchUpdate) == names(BatchUpdate)
    assert names(fake_vllm.LogitsContext) == names(LogitsContext)
    assert names(fake_vllm.LogitsProcRequestState) == names(LogitsProcRequestState)
    assert [direction.name for direction in fake_vllm.MoveDirectionality] == [
        direction.name for direction in MoveDirectionality
    ]
    neutral = vllm.SamplingParams()
    for name, value in vars(fake_vllm.parameters()).items():
        assert getattr(neutral, name) == value
