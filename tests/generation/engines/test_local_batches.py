"""A prompt has the same text in any batch, in any order, at any position."""

import pytest
from written_texts import write

from guard_eval.generation.strategies import STRATEGIES
from guard_eval.records import Prompt

pytestmark = pytest.mark.slow

TEXT = "the cat sat on the mat and Lily ran to the old red house where"
WORDS = TEXT.split() * 2
PROMPTS = [
    Prompt(id=f"p{n}", dataset="d", text=" ".join(WORDS[n % 5 : n % 5 + length]))
    for n, length in enumerate([1, 2, 3, 5, 8, 15, 3])
]
CHAINS = (
    "dry + min_p(p=0.05) + temperature(tau=0.8)",
    "no_repeat_ngram + mirostat(tau=2) + mirostat(tau=1, eta=0.5)",
    "repetition_penalty + no_repeat_ngram(n=3) + top_k(k=20) + top_p(p=0.9)",
)
DRAWN = {
    *CHAINS,
    *("temperature", "top_k", "top_p", "typical", "min_p", "epsilon", "eta", "top_n_sigma"),
    *("p_less", "mirostat", "adaptive"),
}


@pytest.mark.parametrize("loaded", ["stories260k"], indirect=True)
@pytest.mark.parametrize("name", [*STRATEGIES, *CHAINS])
def test_batches_do_not_change_a_text(loaded, name):
    def write_texts(prompts, batch_size, seed=4):
        batches = write(
            loaded,
            prompts,
            name,
            seed=seed,
            max_new_tokens=7,
            max_prompt_tokens=12,
            batch_size=batch_size,
            amateur=loaded,  # only contrastive decoding has one, and its temperature sets it apart
        )
        return {c.prompt_id: (c.text, c.new_tokens, c.finish) for batch in batches for c in batch}

    alone = write_texts(PROMPTS, 1)
    assert len(alone) == len(PROMPTS)
    assert write_texts(PROMPTS[::-1], 3) == alone
    assert write_texts(PROMPTS, 7) == alone
    assert (write_texts(PROMPTS, 7, seed=5) != alone) == (name in DRAWN)
