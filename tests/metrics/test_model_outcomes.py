"""Metrics that use a model equal direct computations, and the model reads each text once."""

import json
import math
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_tokenizers import MARKS, marked_words_of
from texts_measured import measured, score_of
from transformers import BertConfig, BertModel

from guard_eval.demo import PROMPTS
from guard_eval.errors import StudyError
from guard_eval.generation.engines.loading import load_pretrained
from guard_eval.metrics.scorers.bertscore import compute_bertscores
from guard_eval.metrics.scorers.coherence import compute_log_likelihoods
from guard_eval.metrics.scorers.mauve import compute_mauve, compute_text_features, cut_to_first_tokens
from guard_eval.metrics.scoring_models import ScoreCache, ScoringModel
from guard_eval.records import HUMAN, Generation
from guard_eval.study.system_settings import BUNDLED, locate_model

pytest.importorskip("faiss", reason="MAUVE needs faiss: pip install 'guard-eval[metrics]'")

pytestmark = pytest.mark.slow

LOCATION = locate_model(BUNDLED, PROMPTS.parent)
LINES = [json.loads(line)["prompt"] for line in PROMPTS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def bundled():
    return load_pretrained(LOCATION, device="cpu")


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    words = sorted({word for line in LINES for word in line.split()})
    marked_words_of(words).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2}
    BertModel(BertConfig(vocab_size=len(MARKS) + len(words), pad_token_id=1, **sizes)).save_pretrained(folder)
    return folder


class Models:
    """Scoring models for tests. With `cached`, loading a model is an error."""

    def __init__(self, encoder="", *, cached=False):
        self.encoder, self.cached, self.opened = str(encoder), cached, []

    def open(self, name, *, kind="AutoModelForCausalLM"):
        location = self.encoder if kind == "AutoModel" else LOCATION
        model = Unloadable if self.cached else ScoringModel
        self.opened.append(model(location, name, "cpu", kind=kind))
        return self.opened[-1]


class Unloadable(ScoringModel):
    @property
    def loaded_model(self):
        raise StudyError("loaded although everything is known")


def texts_of(strategy, count, words, seed):
    """Return texts of random words from the prompts, which are words of all models in this test."""
    rng = np.random.default_rng(seed)
    vocabulary = [word for line in LINES for word in line.split()]
    return [
        Generation(
            prompt_id=f"p{i:02}",
            dataset="tales",
            strategy=strategy,
            text=" ".join(rng.choice(vocabulary, size=words)),
            prompt=LINES[i % len(LINES)],
            reference=" ".join(np.random.default_rng(1000 + i).choice(vocabulary, size=words)),
        )
        for i in range(count)
    ]


def likelihoods(bundled, prompts, texts):
    pairs = list(zip(prompts, texts, strict=True))
    return compute_log_likelihoods(bundled.model, bundled.tokenizer, pairs, batch_size=1)


def tales_score(results, metric, strategy):
    return score_of(results, metric, strategy, dataset="tales")


def test_coherence_and_perplexity_are_means_of_texts(bundled):
    texts, models = texts_of("guard", 6, 15, 1) + texts_of("greedy", 6, 25, 2), Models()
    results = measured(texts, models=models, compute=["coherence", "perplexity"])
    assert not results.failures
    assert len(models.opened) == 1  # for both strategies and for people
    for strategy in ("guard", "greedy"):
        texts_of_strategy = [text for text in texts if text.strategy == strategy]
        alone = likelihoods(
            bundled, [text.prompt for text in texts_of_strategy], [text.text for text in texts_of_strategy]
        )
        score = tales_score(results, "coherence", strategy)
        assert score.value == pytest.approx(
            np.mean([likelihood.total / likelihood.tokens for likelihood in alone]), abs=1e-5
        )
        assert score.low < score.value < score.high
        mean = sum(likelihood.total for likelihood in alone) / sum(likelihood.tokens for likelihood in alone)
        assert tales_score(results, "perplexity", strategy).value == pytest.approx(math.exp(-mean), rel=1e-5)
    assert "different references for 6 prompts" in results.warnings[0]  # one of 15 words, one of 25
    people = likelihoods(bundled, [text.prompt for text in texts[:6]], [text.reference for text in texts[:6]])
    human = tales_score(results, "coherence", HUMAN)
    assert human.value == pytest.approx(
        np.mean([likelihood.total / likelihood.tokens for likelihood in people]), abs=1e-5
    )
    assert "float32" in human.signature


def test_stored_values_are_not_computed_again(tmp_path, encoder_folder):
    texts = texts_of("guard", 24, 30, 1)
    settings = {"mauve_tokens": 8, "mauve_seeds": 2, "bertscore_layer": 2}
    settings["compute"] = ["coherence", "mauve", "bertscore"]
    with closing(ScoreCache(tmp_path / "scores.sqlite")) as cache:
        once = measured(texts, models=Models(encoder_folder), cache=cache, **settings)
    with closing(ScoreCache(tmp_path / "scores.sqlite")) as cache:
        models = Models(encoder_folder, cached=True)
        twice = measured(texts, models=models, cache=cache, **settings)
        more = measured(texts_of("greedy", 2, 10, 5), models=models, cache=cache, compute=["coherence"])
    assert once.failures == twice.failures == ()
    assert twice.scores == once.scores
    assert more.failures == ("coherence could not be measured: loaded although everything is known",)


def test_mauve_uses_only_texts_of_full_length(bundled):
    texts = texts_of("guard", 40, 30, 1)
    texts[3] = replace(texts[3], text="too short")
    settings = {"compute": ["mauve"], "mauve_tokens": 16, "mauve_seeds": 2, "mauve_buckets": 4}
    results = measured(texts, models=Models(), **settings)
    full = [text for text in texts if text.text != "too short"]
    sides = [text.reference for text in full], [text.text for text in full]
    model, tokenizer = bundled.model, bundled.tokenizer
    cut = ([cut_to_first_tokens(tokenizer, text, 16) for text in side] for side in sides)
    p, q = (np.array(compute_text_features(model, tokenizer, side)) for side in cut)
    score = tales_score(results, "mauve", "guard")
    assert score.value == pytest.approx(compute_mauve(p, q, buckets=4, seeds=(25, 26)).value, abs=1e-6)
    assert score.counts == {"text or reference shorter than 16 tokens": 1}
    assert "over 2 seeds" in score.note
    assert "tales: only 39 texts have full length; with fewer than 1000" in results.warnings[0]
    assert score.low < score.value < score.high
    assert tales_score(results, "mauve", HUMAN).value == 100
    assert "buckets:4|c:5|seeds:25-26" in score.signature


def test_mauve_of_several_runs_is_the_mean():
    """The variance between seeds is not divided by the number of runs, because runs share references."""
    texts = texts_of("guard", 40, 30, 1)
    second = [
        replace(text, text=other.text, run=2)
        for text, other in zip(texts, texts_of("", 40, 30, 2), strict=True)
    ]
    third = [replace(text, text="too short", run=3) for text in texts]
    settings = {"compute": ["mauve"], "mauve_tokens": 16, "mauve_seeds": 2, "mauve_buckets": 4}
    alone = [
        tales_score(measured(run, models=Models(), **settings), "mauve", "guard") for run in (texts, second)
    ]
    score = tales_score(measured(texts + second + third, models=Models(), **settings), "mauve", "guard")
    assert score.value == pytest.approx(np.mean([run.value for run in alone]))
    assert (score.n, score.runs) == (80, 3)
    assert score.note.startswith("mean of 2 runs; standard deviation over 2 seeds")
    assert score.low < score.value < score.high
    few = tales_score(measured(texts[:5], models=Models(), **settings), "mauve", "guard")
    assert few.value is None
    assert "at least 20 are needed" in few.note


def test_bertscore_is_the_mean_of_pairs(encoder_folder):
    texts, models = texts_of("guard", 5, 12, 1), Models(encoder_folder)
    results = measured(texts, models=models, compute=["bertscore"], bertscore_layer=1)
    loaded = load_pretrained(str(encoder_folder), device="cpu", kind="AutoModel")
    pairs = [(text.text, text.reference) for text in texts]
    alone = compute_bertscores(loaded.model, loaded.tokenizer, pairs, layer=1)
    score = tales_score(results, "bertscore", "guard")
    assert score.value == pytest.approx(100 * np.mean([f1 for f1, _ in alone]), abs=1e-3)
    assert "layer:1" in score.signature
    unknown = measured(texts, models=models, compute=["bertscore"], bertscore_model="b")
    assert "bertscore_layer" in unknown.failures[0]


def test_texts_without_a_prompt_have_no_coherence():
    texts = [replace(text, prompt=None) for text in texts_of("guard", 1, 5, 1)]
    score = tales_score(measured(texts, models=Models(), compute=["coherence"]), "coherence", "guard")
    assert (score.value, score.note) == (None, "no text has a prompt")
    assert score.counts == {"without a prompt": 1}
