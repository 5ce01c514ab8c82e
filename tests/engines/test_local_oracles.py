"""Whole texts against slow definitions, and token for token against those that llama2.c published."""

import json
import math
import statistics
from pathlib import Path

import pytest
import torch
from stepping import left

from guard_eval.engines.decode import Batch, decode
from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.local import generate
from guard_eval.records import Continuation, Prompt
from guard_eval.strategies import AdaptiveContrastiveSearch, Greedy, Strategy, TopP

pytestmark = pytest.mark.slow
TEXTS = [
    "Once upon a time there was",
    "The dog ran to the old red house and",
    "Lily",
    "the cat sat on the mat. One day, the dog and the cat went out to see",
]
PROMPTS = [Prompt(id=f"p{n}", dataset="d", text=text) for n, text in enumerate(TEXTS)]
STEPS = 28


def made(loaded: LoadedModel, strategy: Strategy, batch_size: int, prompts=PROMPTS, steps: int = STEPS):
    batches = generate(
        loaded, prompts, strategy, seed=1, max_new_tokens=steps, max_prompt_tokens=64, batch_size=batch_size
    )
    return {continuation.prompt_id: continuation for batch in batches for continuation in batch}


class Slow:
    """Recompute everything at every step, one text at a time, without cache, mask or padding."""

    def __init__(self, loaded: LoadedModel):
        self.loaded = loaded
        self.ends = {loaded.tokenizer.eos_token_id}

    @torch.no_grad()
    def logits(self, ids: list[int]) -> list[float]:
        return self.loaded.model(input_ids=torch.tensor([ids])).logits[0, -1].tolist()

    @torch.no_grad()
    def hidden(self, rows: list[list[int]]) -> torch.Tensor:
        output = self.loaded.model(input_ids=torch.tensor(rows), output_hidden_states=True)
        return output.hidden_states[-1].double()

    def text(self, prompt: Prompt, choose) -> tuple[str, int, str]:
        """Return text, number of tokens and finish, with `choose(ids, new)` giving each next token."""
        start = self.loaded.tokenizer(prompt.text)["input_ids"]
        new: list[int] = []
        while len(new) < STEPS and not (new and new[-1] in self.ends):
            new.append(choose(start + new, new))
        decode = self.loaded.tokenizer.decode
        before = decode(start, skip_special_tokens=True)
        whole = decode(start + new, skip_special_tokens=True)
        return whole.removeprefix(before), len(new), "eos" if new[-1] in self.ends else "length"


def check(loaded: LoadedModel, strategy: Strategy, slow: Slow, chooser) -> None:
    """Compare texts made one by one and in one batch with the slow ones; `chooser()` starts a text."""
    alone, together = made(loaded, strategy, 1), made(loaded, strategy, len(PROMPTS))
    for prompt in PROMPTS:
        expected = slow.text(prompt, chooser())
        assert outcome(alone[prompt.id]) == expected
        assert outcome(together[prompt.id]) == expected


def outcome(continuation: Continuation) -> tuple[str, int, str]:
    return continuation.text, continuation.new_tokens, continuation.finish


def softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    e = [math.exp(x - top) for x in logits]
    z = sum(e)
    return [x / z for x in e]


def entropy(p: list[float]) -> float:
    return -sum(x * math.log(x) for x in p if x > 0)


def ranked(values: list[float], k: int) -> list[int]:
    return sorted(range(len(values)), key=lambda v: (-values[v], v))[:k]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def atanh(x: float) -> float:
    return math.atanh(max(-1 + 1e-6, min(1 - 1e-6, x)))


def contrastive_choice(slow: Slow, ids: list[int], p: list[float], k: int, alpha: float) -> int:
    candidates = ranked(p, k)
    hidden = torch.nn.functional.normalize(slow.hidden([[*ids, v] for v in candidates]), dim=-1)
    cosine = (hidden[:, :-1] @ hidden[:, -1:].transpose(1, 2))[..., 0].amax(-1).tolist()
    scores = {v: (1 - alpha) * p[v] - alpha * c for v, c in zip(candidates, cosine, strict=True)}
    return min(v for v in scores if scores[v] == max(scores.values()))


@pytest.mark.parametrize(("loaded", "q"), [("stories260k", 1.0), ("llama", 3.0)], indirect=["loaded"])
def test_acs_equals_the_definition(loaded, q):
    slow = Slow(loaded)

    def chooser():
        whole: list[float] = []
        inside: list[float] = []

        def choose(ids: list[int], new: list[int]) -> int:
            p = softmax(slow.logits(ids))
            h = entropy(p)
            x = q * atanh((h - statistics.median(whole)) / math.log(len(p))) if whole else 0
            k = round(10 * sigmoid(x) + 5)
            top = [p[v] for v in ranked(p, k)]
            h_k = entropy([x / sum(top) for x in top])
            x = q * atanh((h_k - statistics.median(inside)) / math.log(k)) if inside else 0
            whole.append(h)
            inside.append(h_k)
            return contrastive_choice(slow, ids, p, k, round(sigmoid(x), 2))

        return choose

    check(loaded, AdaptiveContrastiveSearch(q=q), slow, chooser)


PUBLISHED = Path(__file__).parents[2].parent / "shared" / "models" / "stories260k" / "expected.json"
BOS = 1

a_story = pytest.mark.parametrize("loaded", ["stories260k"], indirect=True)


def published() -> dict:
    return json.loads(PUBLISHED.read_text(encoding="utf-8"))


@a_story
@pytest.mark.parametrize("name", ["greedy_from_bos_200_steps", "greedy_doc"])
def test_greedy_writes_the_published_stories(loaded, name):
    text = published()[name]
    batch = Batch(prompts=[[BOS]], keys=torch.zeros(1).long(), ends=(BOS,), limit=260)
    tokens = decode(loaded.model, batch, Greedy()).tokens[0]
    assert loaded.tokenizer.decode(tokens).startswith(text)


def coins(seed: int):
    """Yield llama2.c's random numbers in [0, 1), from its xorshift64* generator."""
    state, whole = seed, (1 << 64) - 1
    while True:
        state ^= state >> 12
        state ^= (state << 25) & whole
        state ^= state >> 27
        yield ((((state * 0x2545F4914F6CDD1D) & whole) >> 32) >> 8) / 2**24


@a_story
@torch.inference_mode()
def test_top_p_writes_the_published_story(loaded):
    """Our truncation and the other program's coins: the token where the cumulative weight passes the coin."""
    story = published()["top_p_doc"]
    tokens: list[int] = []
    for coin in coins(story["seed"]):
        logits = loaded.model(input_ids=torch.tensor([[BOS, *tokens]])).logits[:, -1]
        likeliest, ids = left(TopP(p=story["top_p"]), logits)[0].sort(descending=True, stable=True)
        cumulative = likeliest.softmax(-1).cumsum(0)
        token = int(ids[torch.searchsorted(cumulative, coin * cumulative[-1], right=True)])
        if token == BOS or len(tokens) == 256:
            break
        tokens.append(token)
    assert loaded.tokenizer.decode(tokens).strip() == story["text"]
