"""Metrics that a model takes: the same numbers as from the metric itself, read once."""

import json
import math
from contextlib import closing

import numpy as np
import pytest
import torch
from small_tokenizers import MARKS, marked_words_of
from transformers import BertConfig, BertModel

from guard_eval.demo import PROMPTS
from guard_eval.engines.loading import load, load_encoder
from guard_eval.errors import StudyError
from guard_eval.metrics.bertscore import bertscore
from guard_eval.metrics.cache import ScoreCache, compute_once
from guard_eval.metrics.coherence import log_likelihoods
from guard_eval.metrics.mauve import first_tokens, hidden_features, mauve
from guard_eval.metrics.measurement import measure_generations
from guard_eval.metrics.models import ScoringModel
from guard_eval.study.folder import BUNDLED, locate_model
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import HUMAN, Generation

pytest.importorskip("faiss", reason="MAUVE needs faiss: pip install 'guard-eval[metrics]'")

pytestmark = pytest.mark.slow

LOCATION = locate_model(BUNDLED, PROMPTS.parent)
LINES = [json.loads(line)["prompt"] for line in PROMPTS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def bundled():
    return load(LOCATION, device="cpu")


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    words = sorted({word for line in LINES for word in line.split()})
    marked_words_of(words).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2}
    BertModel(BertConfig(vocab_size=len(MARKS) + len(words), pad_token_id=1, **sizes)).save_pretrained(folder)
    return folder


class Counted:
    """Models that say how often they were loaded, and may refuse."""

    def __init__(self, encoder="", *, refuse=False):
        self.loads, self.refuse, self.folder = 0, refuse, str(encoder)

    def _load(self, loader):
        def counted(*args, **options):
            if self.refuse:
                raise StudyError("loaded although everything is known")
            self.loads += 1
            return loader(*args, **options)

        return counted

    def causal(self, name):
        return ScoringModel(self._load(load), LOCATION, name, "float32", "cpu")

    def encoder(self, name):
        return ScoringModel(self._load(load_encoder), self.folder, name, "float32", "cpu")


def texts_of(strategy, count, words, seed):
    """Words of the prompts, shuffled: texts of a vocabulary that all models here know."""
    rng = np.random.default_rng(seed)
    known = [word for line in LINES for word in line.split()]
    return [
        Generation(
            prompt_id=f"p{i:02}",
            dataset="tales",
            strategy=strategy,
            text=" ".join(rng.choice(known, size=words)),
            prompt=LINES[i % len(LINES)],
            reference=" ".join(np.random.default_rng(1000 + i).choice(known, size=words)),
        )
        for i in range(count)
    ]


def run(texts, models, cache=None, **settings):
    return measure_generations(
        texts, MetricSettings(**settings), seed=1, models=models, cache=cache or ScoreCache()
    )


def find(measured, metric, strategy):
    (one,) = (s for s in measured.scores if (s.metric, s.strategy) == (metric, strategy))
    return one


def likelihoods(bundled, prompts, texts):
    return log_likelihoods(bundled.model, bundled.tokenizer, prompts, texts, batch_size=1)


def test_coherence_and_perplexity_are_those_of_each_text(bundled):
    texts = texts_of("guard", 6, 15, 1) + texts_of("greedy", 6, 25, 2)
    models = Counted()
    result = run(texts, models, compute=["coherence", "perplexity"])
    assert not result.failures
    assert models.loads == 1  # for both strategies and for people
    for strategy in ("guard", "greedy"):
        mine = [one for one in texts if one.strategy == strategy]
        alone = likelihoods(bundled, [one.prompt for one in mine], [one.text for one in mine])
        score = find(result, "coherence", strategy)
        assert score.value == pytest.approx(np.mean([one.mean for one in alone]), abs=1e-5)
        total, tokens = sum(one.total for one in alone), sum(one.tokens for one in alone)
        assert find(result, "perplexity", strategy).value == pytest.approx(
            math.exp(-total / tokens), rel=1e-5
        )
        assert score.low < score.value < score.high
    assert "different references of 6 prompts" in result.warnings[0]  # one of 15 words, one of 25
    people = likelihoods(bundled, [one.prompt for one in texts[:6]], [one.reference for one in texts[:6]])
    assert find(result, "coherence", HUMAN).value == pytest.approx(
        np.mean([one.mean for one in people]), abs=1e-5
    )
    assert "float32" in find(result, "coherence", HUMAN).signature


def test_what_is_known_is_not_asked_again(tmp_path, encoder_folder):
    texts = texts_of("guard", 24, 30, 1)
    settings = {
        "compute": ["coherence", "mauve", "bertscore"],
        "mauve_tokens": 8,
        "mauve_seeds": 2,
        "bertscore_layer": 2,
    }
    first = ScoreCache(tmp_path / "scores.sqlite")
    once = run(texts, Counted(encoder_folder), first, **settings)
    first.close()
    assert not once.failures
    second = ScoreCache(tmp_path / "scores.sqlite")
    again = run(texts, Counted(encoder_folder, refuse=True), second, **settings)
    assert again == once
    more = run(
        texts_of("greedy", 2, 10, 5), Counted(encoder_folder, refuse=True), second, compute=["coherence"]
    )
    assert more.failures == ("coherence could not be measured: loaded although everything is known",)
    second.close()


def test_a_run_that_is_stopped_goes_on(tmp_path, bundled):
    path, keys = tmp_path / "scores.sqlite", {number: str(number) for number in range(600)}
    seen = []

    class StoppedError(Exception):
        pass

    def compute(batch):
        if seen:
            raise StoppedError
        seen.extend(batch)
        return batch

    with closing(ScoreCache(path)) as cache, pytest.raises(StoppedError):
        compute_once("numbers", keys, compute, cache)
    rest = []
    with closing(ScoreCache(path)) as cache:
        result = compute_once("numbers", keys, lambda batch: rest.extend(batch) or batch, cache)
    assert result == {number: number for number in range(600)}
    assert seen
    assert sorted(seen + rest) == list(range(600))


def test_mauve_is_that_of_the_features_of_full_length(bundled):
    texts = texts_of("guard", 40, 30, 1)
    texts[3] = Generation(**{**{f: getattr(texts[3], f) for f in texts[3].__slots__}, "text": "too short"})
    result = run(texts, Counted(), compute=["mauve"], mauve_tokens=16, mauve_seeds=2, mauve_buckets=4)
    assert not result.failures
    score = find(result, "mauve", "guard")
    full = [one for one in texts if one.text != "too short"]
    sides = [
        [first_tokens(bundled.tokenizer, text, 16)[0] for text in side]
        for side in ([one.reference for one in full], [one.text for one in full])
    ]
    p, q = (hidden_features(bundled.model, bundled.tokenizer, side) for side in sides)
    assert score.value == pytest.approx(mauve(p, q, buckets=4, seeds=(25, 26)).value, abs=1e-6)
    assert score.counts == {"text or reference shorter than 16 tokens": 1}
    assert "over 2 seeds" in score.note
    assert "tales: MAUVE is of 39 to 39 texts of full length; below 1000" in result.warnings[0]
    assert score.low < score.value < score.high
    assert find(result, "mauve", HUMAN).value == 100
    assert "buckets:4|c:5|seeds:25-26" in score.signature


def test_too_few_texts_for_mauve_say_so():
    score = find(
        run(texts_of("guard", 5, 30, 1), Counted(), compute=["mauve"], mauve_tokens=4), "mauve", "guard"
    )
    assert score.value is None
    assert "at least" in score.note


def test_bertscore_is_that_of_each_pair(encoder_folder):
    texts = texts_of("guard", 5, 12, 1)
    result = run(texts, Counted(encoder_folder), compute=["bertscore"], bertscore_layer=1)
    assert not result.failures
    loaded = load_encoder(str(encoder_folder), device="cpu")
    sides = [one.text for one in texts], [one.reference for one in texts]
    alone = bertscore(loaded.model, loaded.tokenizer, *sides, layer=1)
    score = find(result, "bertscore", "guard")
    assert score.value == pytest.approx(100 * np.mean([f1 for _, _, f1 in alone]), abs=1e-3)
    assert "layer:1" in score.signature


def test_an_encoder_without_a_known_layer_asks_for_one(encoder_folder):
    result = run(
        texts_of("guard", 2, 5, 1), Counted(encoder_folder), compute=["bertscore"], bertscore_model="b"
    )
    assert "bertscore_layer" in result.failures[0]


def test_texts_without_a_prompt_have_no_coherence():
    texts = [Generation(prompt_id="1", dataset="d", strategy="s", text="once upon a time")]
    score = find(run(texts, Counted(), compute=["coherence"]), "coherence", "s")
    assert (score.value, score.note) == (None, "no text has a prompt")
    assert score.counts == {"without a prompt": 1}
