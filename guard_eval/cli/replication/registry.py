"""Every table and figure of the paper: what it says, of which models, and what can be done about it here."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from guard_eval.errors import StudyError

Kind = Literal["metrics", "speed", "verdicts", "cases", "trace", "shown"]
"""How it is made again: automatic metrics, time, verdicts of people and judges, texts side by side, a figure
of what GUARD adapted, or not at all because there is nothing to run."""

PROMPTS = {"Wikitext": 1314, "Wikinews": 2000, "BookCorpus": 1947}
"""The paper's datasets with their numbers of prompts."""
NEW_TOKENS = 256
COHERENCE_MODEL = "facebook/opt-2.7b"


@dataclass(frozen=True, kw_only=True)
class PaperModel:
    """A model of the paper.

    Attributes:
        name: As `Figure.model` spells it.
        hub: Its Hugging Face id; of Llama and Gemma one asks for access first.
        billions: Its parameters.
    """

    name: str
    hub: str
    billions: float


MODELS = {
    model.name: model
    for model in (
        PaperModel(name="Qwen2.5-7B", hub="Qwen/Qwen2.5-7B", billions=7.6),
        PaperModel(name="GPT2-XL", hub="openai-community/gpt2-xl", billions=1.6),
        PaperModel(name="Llama-2", hub="meta-llama/Llama-2-7b-hf", billions=6.7),
        PaperModel(name="Llama-3", hub="meta-llama/Meta-Llama-3-8B", billions=8.0),
        PaperModel(name="Llama-3.1", hub="meta-llama/Llama-3.1-8B", billions=8.0),
        PaperModel(name="Mistral-v0.3", hub="mistralai/Mistral-7B-v0.3", billions=7.2),
        PaperModel(name="Gemma-7B", hub="google/gemma-7b", billions=8.5),
        PaperModel(name="Deepseek-7B", hub="deepseek-ai/deepseek-llm-7b-base", billions=6.9),
    )
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A table or a figure of the paper.

    Attributes:
        name: Its short name on the command line.
        label: Its label in the paper's TeX; the appendix's where it has none.
        title: What it is about.
        kind: How it is made again.
        study: The stem of its study in `studies/`; "" where there is nothing to run.
        models: The models it is about, by the paper's names; the first is that of the study as shipped.
        named: Whether the paper names the model there.
        prompts: How many prompts of each dataset it takes; None where the paper names no number.
        people: Raters for each pair.
        pairs: Pairs that raters or judges see.
        judged: Whether a judge sees them.
        pointer: For what is only shown: where the same is here.
    """

    name: str
    label: str
    title: str
    kind: Kind
    study: str = ""
    models: tuple[str, ...] = ()
    named: bool = True
    prompts: dict[str, int] | None = None
    people: int = 0
    pairs: int = 0
    judged: bool = False
    pointer: str = ""


_QWEN, _GPT2 = ("Qwen2.5-7B",), ("GPT2-XL",)
_FIFTY = dict.fromkeys(PROMPTS, 50)


def _metrics(
    name: str,
    label: str,
    title: str,
    models: tuple[str, ...] = _QWEN,
    *,
    prompts: dict[str, int] = PROMPTS,
    named: bool = True,
) -> Entry:
    return Entry(
        name=name,
        label=label,
        title=title,
        kind="metrics",
        study="algorithm" if label == "app:C" else label.rpartition(":")[2],
        models=models,
        prompts=prompts,
        named=named,
    )


def _verdicts(
    name: str, label: str, title: str, *, study: str, people: int, pairs: int, judged: bool
) -> Entry:
    return Entry(
        name=name,
        label=label,
        title=title,
        kind="verdicts",
        study=study,
        models=_QWEN,
        named=False,
        prompts=_FIFTY,
        people=people,
        pairs=pairs,
        judged=judged,
    )


def _case(number: int, dataset: str) -> Entry:
    return Entry(
        name=f"case{number}",
        label=f"tab:case{number}",
        title=f"a prompt of {dataset}, three texts",
        kind="cases",
        study="cases",
        models=_QWEN,
        named=False,
        prompts={dataset: 1},
    )


_PEOPLE = "humaneval_resultglacs"
_CONTRASTED = ("Gemma-7B", "Llama-3.1", "Mistral-v0.3", "Deepseek-7B")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        name="method",
        label="fig:figure_two",
        title="how GUARD works, a drawing",
        kind="shown",
        pointer="guard_eval/decoding/guard.py does it, step by step; docs/decoding.md says it in words",
    ),
    Entry(
        name="entropy",
        label="fig:decoding_behavior",
        title="entropies, k and α over a text",
        kind="trace",
        study="decoding_behavior",
        models=_QWEN,
        named=False,
    ),
    _metrics("main", "tab:ablation_resultglacs", "GUARD and eleven other strategies"),
    _verdicts(
        "humaneval",
        "tab:humaneval_resultglacs",
        "people: share favouring GUARD or ACS",
        study=_PEOPLE,
        people=4,
        pairs=150,
        judged=False,
    ),
    _verdicts(
        "llm",
        "tab:llm_judgements",
        "a judge: GUARD and ACS, top-k, top-p",
        study="llm_judgements",
        people=0,
        pairs=450,
        judged=True,
    ),
    _verdicts(
        "llm-human",
        "tab:llm_with_human",
        "people beside a judge",
        study=_PEOPLE,
        people=4,
        pairs=150,
        judged=True,
    ),
    Entry(
        name="speed",
        label="tab:speed_comparison",
        title="time per text: CS, ACS, GUARD",
        kind="speed",
        study="speed_comparison",
        models=_QWEN,
        named=False,
        prompts={"": 30},
    ),
    _metrics("lambda", "tab:lambda_selection", "five decays λ", _GPT2),
    _metrics(
        "median",
        "tab:median_selection",
        "aggregation and mapping",
        prompts={"Wikinews": PROMPTS["Wikinews"]},
        named=False,
    ),
    _metrics("window", "tab:ablation_selectw", "eight locality windows w"),
    _metrics("window-llama2", "tab:ablation_selectw_llama2", "the same", ("Llama-2",)),
    _metrics("window-deepseek", "tab:ablation_selectw_deepseek", "the same", ("Deepseek-7B",)),
    _metrics("window-llama3", "tab:ablation_selectw_llama3", "the same", ("Llama-3",)),
    _metrics("window-mistral", "tab:ablation_selectw_mirstral", "the same", ("Mistral-v0.3",)),
    _metrics("window-gemma", "tab:ablation_selectw_gemma", "the same", ("Gemma-7B",)),
    _metrics("window-gpt2", "tab:ablation_selectw_gpt2", "the same", _GPT2),
    _metrics("algorithm", "app:C", "Algorithm 1, equations, released code", named=False),
    _verdicts(
        "humaneval-counts",
        "tab:human_evaluation_double_exp",
        "people: wins and ties",
        study=_PEOPLE,
        people=4,
        pairs=150,
        judged=False,
    ),
    Entry(
        name="form",
        label="fig:human_evaluation_form",
        title="the form that raters filled in",
        kind="shown",
        pointer="guard-eval demo, then guard-eval annotate demo-study --invite ME, shows ours",
    ),
    Entry(
        name="judge-prompt",
        label="app:F",
        title="the judge's instructions",
        kind="shown",
        pointer="guard-eval judge STUDY --dry-run prints them as they are sent",
    ),
    _metrics("models", "tab:model_size_results", "CS, ACS and GUARD on other models", _CONTRASTED),
    _metrics(
        "bertscore",
        "tab:model_size_bertscore_results",
        "the same, BERTScore",
        ("Llama-2", *_CONTRASTED),
    ),
    _metrics("beam", "tab:different_beam_width", "six beam widths, and GUARD"),
    _metrics("top-k", "tab:different_topk", "six k of top-k sampling, and GUARD"),
    _metrics("top-p", "tab:different_topp", "five p of top-p sampling, and GUARD"),
    _case(1, "Wikitext"),
    _case(2, "Wikinews"),
    _case(3, "BookCorpus"),
)
"""In the paper's order."""


def find(wanted: str) -> Entry:
    """Return the entry of a label or a short name.

    Raises:
        StudyError: There is none; the message offers the nearest, or all names.
    """
    for entry in ENTRIES:
        if wanted in {entry.name, entry.label, entry.label.rpartition(":")[2]}:
            return entry
    names = [entry.name for entry in ENTRIES]
    near = difflib.get_close_matches(wanted, [*names, *(entry.label for entry in ENTRIES)], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise StudyError(
        f"the paper has no table or figure {wanted!r}: {hint}choose from: {', '.join(names)} "
        "(guard-eval replicate --list says what they are)"
    )


def model_named(text: str) -> PaperModel | None:
    """Return the paper's model of this name or Hugging Face id, or None."""
    known = (
        model for model in MODELS.values() if text.casefold() in {model.name.casefold(), model.hub.casefold()}
    )
    return next(known, None)
