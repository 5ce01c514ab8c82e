"""The paper: its tables and figures, what each is about, and every figure that a table prints.

A line of a file in `tables/` is a printed figure, as `tools/transcribe_paper.py` transcribed it: where it
is in the table (`block`, `row`, `group`, `column`: the words of the paper), what is printed (`value`,
`unit`, `mark`), and what it is of in our words (`model`, `dataset`, `strategy`, `versus`, `metric`).
"""

from __future__ import annotations

import csv
import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from guard_eval.errors import StudyError

FOLDER = Path(__file__).parent / "tables"
PROMPTS = {"Wikitext": 1314, "Wikinews": 2000, "BookCorpus": 1947}
"""The paper's datasets with their numbers of prompts."""
NEW_TOKENS = 256
COHERENCE_MODEL = "facebook/opt-2.7b"
TRACE, SPEED = "fig:decoding_behavior", "tab:speed_comparison"
MEDIAN, BERTSCORE = "tab:median_selection", "tab:model_size_bertscore_results"

Kind = Literal["metrics", "speed", "verdicts", "cases", "trace", "shown"]
"""How it is made again: automatic metrics, time, verdicts of people and judges, texts side by side, a figure
of what GUARD adapted, or not at all because there is nothing to run."""


@dataclass(frozen=True)
class PaperModel:
    """A model of the paper.

    Attributes:
        name: As `Figure.model` spells it.
        hub: Its Hugging Face id; access to Llama and Gemma must be requested first.
        billions: Its parameters.
    """

    name: str
    hub: str
    billions: float


MODELS = {
    model.name: model
    for model in (
        PaperModel("Qwen2.5-7B", "Qwen/Qwen2.5-7B", 7.6),
        PaperModel("GPT2-XL", "openai-community/gpt2-xl", 1.6),
        PaperModel("Llama-2", "meta-llama/Llama-2-7b-hf", 6.7),
        PaperModel("Llama-3", "meta-llama/Meta-Llama-3-8B", 8.0),
        PaperModel("Llama-3.1", "meta-llama/Llama-3.1-8B", 8.0),
        PaperModel("Mistral-v0.3", "mistralai/Mistral-7B-v0.3", 7.2),
        PaperModel("Gemma-7B", "google/gemma-7b", 8.5),
        PaperModel("Deepseek-7B", "deepseek-ai/deepseek-llm-7b-base", 6.9),
    )
}


@dataclass(frozen=True)
class Entry:
    """A table or a figure of the paper.

    Attributes:
        name: Its short name on the command line.
        label: Its label in the paper's TeX; the appendix's where it has none.
        kind: How it is made again.
        title: What it is about.
        models: The models it is about, by the paper's names; the first is that of the study as shipped.
        study: The stem of its study in `studies/`; "" where there is nothing to run.
        prompts: How many prompts of each dataset it takes ("" for any); empty where the paper says nothing.
        named: Whether the paper names the model there.
        people: Raters for each pair.
        pairs: Pairs that raters or judges see.
        judged: Whether a judge sees them.
        pointer: For what is only shown: where the same is here.
    """

    name: str
    label: str
    kind: Kind
    title: str
    models: tuple[str, ...] = ()
    study: str = ""
    prompts: Mapping[str, int] = field(default_factory=dict)
    named: bool = False
    people: int = 0
    pairs: int = 0
    judged: bool = False
    pointer: str = ""


_QWEN, _GPT2 = ("Qwen2.5-7B",), ("GPT2-XL",)
_CONTRASTED = ("Gemma-7B", "Llama-3.1", "Mistral-v0.3", "Deepseek-7B")
_NEWS = {"Wikinews": PROMPTS["Wikinews"]}


def _metrics(name: str, label: str, title: str, models: tuple[str, ...] = _QWEN) -> Entry:
    study = label.removeprefix("tab:")
    return Entry(name, label, "metrics", title, models, study=study, prompts=PROMPTS, named=True)


def _verdicts(
    name: str, label: str, title: str, *, people: int = 0, pairs: int = 150, judged: bool = False
) -> Entry:
    return Entry(
        name,
        label,
        "verdicts",
        title,
        _QWEN,
        study="humaneval_resultglacs" if people else "llm_judgements",
        prompts=dict.fromkeys(PROMPTS, 50),
        people=people,
        pairs=pairs,
        judged=judged,
    )


def _case(number: int, dataset: str) -> Entry:
    title, prompts = f"a prompt of {dataset}, three texts", {dataset: 1}
    return Entry(f"case{number}", f"tab:case{number}", "cases", title, _QWEN, "cases", prompts)


def _shown(name: str, label: str, title: str, pointer: str) -> Entry:
    return Entry(name, label, "shown", title, pointer=pointer)


ENTRIES: tuple[Entry, ...] = (
    _shown(
        "method",
        "fig:figure_two",
        "how GUARD works, a drawing",
        "guard_eval/decoding/guard/step.py does it, step by step; docs/decoding.md says it in words",
    ),
    Entry("entropy", TRACE, "trace", "entropies, k and α over a text", _QWEN, "decoding_behavior"),
    _metrics("main", "tab:ablation_resultglacs", "GUARD and eleven other strategies"),
    _verdicts("humaneval", "tab:humaneval_resultglacs", "people: share favouring GUARD or ACS", people=4),
    _verdicts("llm", "tab:llm_judgements", "a judge: GUARD and ACS, top-k, top-p", pairs=450, judged=True),
    _verdicts("llm-human", "tab:llm_with_human", "people beside a judge", people=4, judged=True),
    Entry("speed", SPEED, "speed", "time per text: CS, ACS, GUARD", _QWEN, "speed_comparison", {"": 30}),
    _metrics("lambda", "tab:lambda_selection", "five decays λ", _GPT2),
    Entry("median", MEDIAN, "metrics", "aggregation and mapping", _QWEN, "median_selection", _NEWS),
    _metrics("window", "tab:ablation_selectw", "eight locality windows w"),
    _metrics("window-llama2", "tab:ablation_selectw_llama2", "the same", ("Llama-2",)),
    _metrics("window-deepseek", "tab:ablation_selectw_deepseek", "the same", ("Deepseek-7B",)),
    _metrics("window-llama3", "tab:ablation_selectw_llama3", "the same", ("Llama-3",)),
    _metrics("window-mistral", "tab:ablation_selectw_mirstral", "the same", ("Mistral-v0.3",)),
    _metrics("window-gemma", "tab:ablation_selectw_gemma", "the same", ("Gemma-7B",)),
    _metrics("window-gpt2", "tab:ablation_selectw_gpt2", "the same", _GPT2),
    Entry(
        "algorithm",
        "app:C",
        "metrics",
        "Algorithm 1, equations, released code",
        _QWEN,
        "algorithm",
        PROMPTS,
    ),
    _verdicts("humaneval-counts", "tab:human_evaluation_double_exp", "people: wins and ties", people=4),
    _shown(
        "form",
        "fig:human_evaluation_form",
        "the form that raters filled in",
        "guard-eval demo, then guard-eval annotate demo-study --invite ME, shows ours",
    ),
    _shown(
        "judge-prompt",
        "app:F",
        "the judge's instructions",
        "guard-eval judge STUDY --dry-run prints them as they are sent",
    ),
    _metrics("models", "tab:model_size_results", "CS, ACS and GUARD on other models", _CONTRASTED),
    _metrics("bertscore", BERTSCORE, "the same, BERTScore", ("Llama-2", *_CONTRASTED)),
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
    return next(
        (m for m in MODELS.values() if text.casefold() in {m.name.casefold(), m.hub.casefold()}), None
    )


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure as a table prints it.

    Attributes:
        table: The table's label in the paper's TeX.
        block: The heading of a block of rows ("Wikitext", "Sem. Coh."), or "".
        row: The row's name ("Top-k (50)").
        group: The heading over several columns ("Wikitext", "Human Evaluation"), or "".
        column: The column's heading ("Div.").
        value: The digits as printed ("94.50"), or "yes" and "no" for a tick and a cross.
        unit: "%" where it is printed behind the figure.
        mark: "bold", or "".
        model: Of which model, spelt one way for all tables; "" where the table names none.
        dataset: "Wikitext", "Wikinews", "BookCorpus", "All", or "".
        strategy: Its signature (`guard_eval.strategies`), or "human".
        versus: The other strategy of a pair, or "".
        metric: diversity, mauve, coherence, bertscore; sec_per_story, tokens_per_sec, tokens_per_story; or
            who.criterion.what with who `people` or `judge` and what `win` (the strategy's wins), `tie`,
            `share` (ties split) or `agree`.
    """

    table: str
    block: str
    row: str
    group: str
    column: str
    value: str
    unit: str
    mark: str
    model: str
    dataset: str
    strategy: str
    versus: str
    metric: str

    @property
    def number(self) -> float:
        """The value as a number; percentages stay percentages. A tick or a cross has none."""
        return float(self.value)

    @property
    def decimals(self) -> int:
        """How many digits stand behind the point."""
        return len(self.value.partition(".")[2])

    @property
    def half_unit(self) -> float:
        """Half a unit of the last digit printed: how far the unrounded figure may lie from `number`."""
        return 0.5 * 10.0**-self.decimals


COLUMNS = tuple(field.name for field in fields(Figure))


@functools.cache
def published(label: str) -> tuple[Figure, ...]:
    """Return the figures of the table with this label, in the order of print, row by row.

    Raises:
        StudyError: There is no such table of figures.
    """
    path = FOLDER / f"{label.removeprefix('tab:')}.csv"
    if not label.startswith("tab:") or label not in labels():
        raise StudyError(f"the paper has no table of figures {label!r}; choose from: {', '.join(labels())}")
    with path.open(encoding="utf-8", newline="") as stream:
        return tuple(Figure(**line) for line in csv.DictReader(stream))


@functools.cache
def labels() -> tuple[str, ...]:
    """Return the labels of all tables of figures."""
    return tuple(f"tab:{path.stem}" for path in sorted(FOLDER.glob("*.csv")) if path.stem != "cases")


@functools.cache
def cases() -> dict[str, dict[str, str]]:
    """Return the texts of the case studies: label → Prompt, Reference, CS, ACS, GUARD → text.

    What the paper sets in red is between ⟦ and ⟧.
    """
    found: dict[str, dict[str, str]] = {}
    with (FOLDER / "cases.csv").open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            found.setdefault(line["table"], {})[line["row"]] = line["text"]
    return found


def speed_with_ratios() -> tuple[Figure, ...]:
    """Return the figures of the table of speed, and the ratios of tokens per second that they give.

    The paper has two: that of its tokens per second, and the other way round that of its seconds per text.
    They differ, because its columns do not multiply to each other (`docs/errata.md`).
    """
    figures = published(SPEED)
    by_key = {(figure.strategy, figure.metric): figure for figure in figures}
    rate, seconds = by_key["guard", "tokens_per_sec"], by_key["guard", "sec_per_story"]
    ratios = [
        replace(
            rate,
            row=f"GUARD over {figure.row}",
            group="tokens per second, a ratio",
            column=column,
            value=f"{value:.2f}",
            mark="",
            versus=figure.strategy,
            metric="tokens_per_sec_ratio",
        )
        for figure in figures
        if figure.metric == "tokens_per_sec" and figure.strategy != "guard"
        for column, value in (
            ("by #tokens/sec", rate.number / figure.number),
            ("by sec/story", by_key[figure.strategy, "sec_per_story"].number / seconds.number),
        )
    ]
    return (*figures, *ratios)
