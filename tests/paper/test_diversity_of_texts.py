"""Diversity of published continuations and references, if these files are beside the repository."""

import numpy as np
import pytest
from paper_data import GUARD, MAIN, find_figure, read_published_lines

from guard_eval.metrics.scorers.ngrams import compute_diversity, compute_unrounded_diversity, count_ngrams

pytestmark = pytest.mark.slow

WHAT = "GUARD's published continuations (Qwen2.5-7B, Wikitext)"


def find_printed(dataset, strategy):
    return find_figure(MAIN, dataset=dataset, strategy=strategy, metric="diversity").value


def read_generated():
    return [line["text"] for line in read_published_lines("generations/GUARD_wikitext_guard_w7.jsonl", WHAT)]


def read_references(dataset):
    lines = read_published_lines(
        f"prompts/{dataset.lower()}.jsonl", f"the prompts and references of {dataset}"
    )
    return [line["reference"] for line in lines]


def test_guards_published_texts_have_the_printed_diversity(claim):
    """GUARD's diversity on Wikitext is 92.86 (tab:ablation_resultglacs)"""
    texts = read_generated()
    result = compute_diversity(texts)
    claim.holds(
        f"{result.diversity} from {len(texts)} published continuations, with the definition of the published "
        "code"
    )
    assert f"{result.diversity:.2f}" == find_printed("Wikitext", GUARD) == "92.86"


def find_words_until_below(texts, least):
    """Return the smallest number of words per text at which the diversity stays below `least`."""
    words = [text.split() for text in texts]
    low, high = 4, 1000
    while high - low > 1:
        middle = (low + high) // 2
        enough = compute_diversity([" ".join(tokens[:middle]) for tokens in words]).diversity >= least
        low, high = (middle, high) if enough else (low, middle)
    return high


def test_references_do_not_have_the_printed_diversity(claim):
    """people's diversity is 93.84 on Wikitext and 93.50 on Wikinews (tab:ablation_resultglacs)"""
    words, cut, result = [], [], {}
    for dataset in ("Wikitext", "Wikinews"):
        texts, stated = read_references(dataset), find_printed(dataset, "human")
        result[dataset] = compute_diversity(texts).diversity
        words.append(f"{dataset} {result[dataset]} ({stated} printed)")
        cut.append(f"{dataset} {find_words_until_below(texts, float(stated))}")
    claim.fails(
        f"from the published references: {', '.join(words)}",
        f"Cut to so many words each they fall below what is printed: {', '.join(cut)}; so no one length "
        "gives both. The references of BookCorpus are not at hand.",
        "“Closest to human” is measured from these figures. With 92.98 on Wikitext GUARD (92.86) stays the "
        "closest; with 92.20 on Wikinews Top-k (92.13) is, where ACS (92.79) is bold.",
    )
    assert result == {"Wikitext": 92.98, "Wikinews": 92.20}


def test_printed_diversity_does_not_follow_its_formula(claim):
    """DIV = ∏ unique n-grams / total n-grams of a continuation, n = 2, 3, 4 (app:D)"""
    # Of a text and one more word, the last n-gram, which is not counted, is no n-gram of the text.
    counts = count_ngrams([f"{text} ." for text in read_generated()])
    mean, stated = np.nanmean(compute_unrounded_diversity(counts)), find_printed("Wikitext", GUARD)
    claim.fails(
        f"as written, averaged over texts, it is {mean:.2f}; {stated}, the printed figure, comes from counts "
        "summed over all texts, each text's last n-gram left out and rates rounded before they are "
        "multiplied"
    )
    assert f"{mean:.2f}" == "93.57" != stated
