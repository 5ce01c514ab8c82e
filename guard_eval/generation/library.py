"""Texts from a program or a notebook: prompts in, texts in the order of the prompts out. The command `try`.

A text is the one that a study with the same seed and settings makes of a prompt with the same id.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import Progress

from guard_eval import progress as display
from guard_eval.errors import StudyError
from guard_eval.generation.decoding.entropy import shannon_entropy
from guard_eval.generation.decoding.processor import DecodedStep
from guard_eval.generation.engines.batch import BatchSizes
from guard_eval.generation.engines.encoding import continuation_text, encode
from guard_eval.generation.engines.loading import LoadedModel, check_amateur, load
from guard_eval.generation.engines.local import write_batches
from guard_eval.generation.strategies import Strategy, draws, parse, to_python
from guard_eval.records import Continuation, Prompt, content_id
from guard_eval.results import Result
from guard_eval.study.folder import locate_model
from guard_eval.study.settings import GenerationSettings
from guard_eval.study.system_settings import BUNDLED
from guard_eval.study.toml import check_tables
from guard_eval.texts.models import find_models

MAX_PROMPT_TOKENS = 256
"""How many of a prompt's last tokens are kept, if nothing else is said."""
_SHADES = 10
"""Colours from none to the strongest."""
_ENDED = {"eos": "the model", "length": "the length limit", "stop": "a stop string"}


class _Settings(GenerationSettings):
    """What `generate` takes beside prompts, strategy and models, under its names in study.toml."""

    seed: int


class Texts(list[Continuation]):
    """Continuations in the order of their prompts, the runs of a prompt one after the other."""

    def __init__(self, prompts: Sequence[Prompt], continuations: Sequence[Continuation]) -> None:
        """Hold continuations and, in the same order, their prompts."""
        super().__init__(continuations)
        self._prompts = prompts

    def with_prompts(self) -> Iterator[tuple[Prompt, Continuation]]:
        """Return an iterator over the texts, each after its prompt."""
        return zip(self._prompts, self, strict=True)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each text: prompt, strategy, run, text, tokens, and why it ended."""
        return pd.DataFrame(
            [
                (p.id, p.text, text.recipe.strategy, text.run, text.text, text.new_tokens, text.finish)
                for p, text in self.with_prompts()
            ],
            columns=["prompt_id", "prompt", "strategy", "run", "text", "new_tokens", "finish"],
        )

    def __repr__(self) -> str:
        """Return how many texts these are, and by which strategy."""
        names = ", ".join(sorted({text.recipe.strategy for text in self}))
        return f"<{len(self)} texts by {names}>"


def generate(
    prompts: str | Prompt | Iterable[str | Prompt],
    strategy: Strategy | str = "guard",
    model: str | LoadedModel = BUNDLED,
    *,
    amateur: str | LoadedModel | None = None,
    seed: int = 0,
    runs: int = 1,
    stop: str | Sequence[str] = (),
    max_new_tokens: int = 256,
    max_prompt_tokens: int = MAX_PROMPT_TOKENS,
    chat: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    progress: bool = True,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Texts:
    """Return a continuation of each prompt, in their order.

    Args:
        prompts: One or several, as text or as `Prompt`. A text's id is made of the text.
        strategy: Such as `Guard()` or `"top_p(p=0.9)"`.
        model: A Hugging Face id, a folder, `bundled`, or what `load_model` returned.
        amateur: The second model of contrastive decoding.
        seed: Draws depend on it, the prompt's id, the strategy and the run alone.
        runs: How many texts a strategy that draws writes to each prompt.
        stop: A text ends before the first of these strings.
        max_new_tokens: The length limit of a text.
        max_prompt_tokens: How many of a prompt's last tokens are kept.
        chat: Whether prompts go through the model's chat template.
        device: See `load_model`, as for `dtype`.
        dtype: The arithmetic.
        batch_size: Rows at once; if left out, see `batch_size` in docs/study_toml.md.
        progress: Whether to show a bar.
        on_step: Called with each step of each batch as it is made. Strategies with beams make none.

    Raises:
        StudyError: The model cannot be loaded or cannot run the strategy, or a prompt or value is not valid.
    """
    wanted = _read_prompts(prompts)
    strategy = parse(strategy) if isinstance(strategy, str) else strategy
    if not isinstance(strategy, Strategy):
        raise StudyError(f"{strategy!r:.60} is no strategy; write Guard() or 'guard', for example")
    stops = [stop] if isinstance(stop, str) else stop
    values = {
        "seed": seed,
        "runs": runs,
        "stop": list(stops) if isinstance(stops, Iterable) else stops,
        "max_new_tokens": max_new_tokens,
        "max_prompt_tokens": max_prompt_tokens,
        "batch_size": "auto" if batch_size is None else batch_size,
        "chat": chat,
    }
    settings = check_tables(_Settings, {name: to_python(value) for name, value in values.items()}, "generate")
    loaded = load_model(model, device=device, dtype=dtype)
    second = None
    if amateur is not None:
        second = load_model(amateur, device=device, dtype=dtype)
        check_amateur(loaded, second)
    repeats = settings.runs if draws(strategy) else 1
    pairs = [(prompt, 1 + run) for prompt in wanted for run in range(repeats)]
    distinct = {(prompt.id, run): (prompt, run) for prompt, run in pairs}
    batches = write_batches(
        loaded,
        list(distinct.values()),
        strategy,
        loaded.recipe(strategy, settings, settings.seed, amateur=second),
        BatchSizes.choose(settings.batch_size, loaded.model, strategy),
        amateur=second,
        on_step=on_step,
    )
    written: dict[tuple[str, int], Continuation] = {}
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task(str(strategy), total=len(distinct))
        for batch in batches:
            written |= {(text.prompt_id, text.run): text for text in batch.texts}
            bar.advance(task, len(batch.texts))
    return Texts([prompt for prompt, _ in pairs], [written[prompt.id, run] for prompt, run in pairs])


def _read_prompts(prompts: str | Prompt | Iterable[str | Prompt]) -> list[Prompt]:
    if isinstance(prompts, Mapping | pd.DataFrame):  # of which a loop gives the names of columns
        raise StudyError(f"prompts is of type {type(prompts).__name__}; give a list of its texts")
    several: Any = prompts if isinstance(prompts, Iterable) and not isinstance(prompts, str) else [prompts]
    by_id: dict[str, Prompt] = {}
    result = []
    for number, item in enumerate(several, 1):
        if not isinstance(item, str | Prompt):
            raise StudyError(f"prompt {number} is of type {type(item).__name__}; give text or a Prompt")
        prompt = (
            Prompt(id=content_id("prompt", item), dataset="", text=item) if isinstance(item, str) else item
        )
        if by_id.setdefault(prompt.id, prompt).text != prompt.text:
            raise StudyError(f"two prompts have the id {prompt.id!r} and differ; give each its own")
        result.append(prompt)
    return result


def load_model(
    model: str | Path | LoadedModel = BUNDLED, *, device: str = "auto", dtype: str = "auto"
) -> LoadedModel:
    """Return a model that `generate` can use several times; see `loading.load`.

    Args:
        model: A Hugging Face id, a folder, or `bundled`; a loaded one is returned as it is.
        device: `auto`, `cpu`, `cuda:1`, ….
        dtype: `auto`, `float32`, `bfloat16` or `float16`.

    Raises:
        StudyError: There is no such model, or it is not on this machine and the Hub cannot be reached.
    """
    if isinstance(model, LoadedModel):
        if (device, dtype) != ("auto", "auto"):
            raise StudyError("device and dtype have no effect on a loaded model; give them to load_model")
        return model
    if not isinstance(model, str | Path):
        raise StudyError(f"model = {model!r:.60} is no model; give a Hugging Face id, a folder, or 'bundled'")
    name = str(model)
    location = locate_model(name, Path())
    result = find_models({name: (location, "main")})
    if problem := result.problem:
        raise StudyError(problem)
    with result.offline():
        return load(location, name=name, device=device, dtype=dtype)


@dataclass(frozen=True, kw_only=True)
class ShownText(Result):
    """One text, what ended it (`eos`, `length` or `stop`), and the numbers of each of its tokens.

    Attributes:
        tokens: For each token its text, entropy (nats), probability, and what the strategy adapts. A strategy
            with beams has none.
    """

    text: str
    strategy: str
    finish: str
    seconds: float
    tokens: tuple[dict[str, str | float], ...]


def show_text(
    model: str,
    prompt: str | None = None,
    /,
    *,
    strategy: str = "guard",
    amateur: str | None = None,
    max_new_tokens: int = 128,
    seed: int = 0,
    chat: bool = False,
    device: str = "auto",
) -> ShownText:
    """Show one text as it is made, its tokens coloured by how unsure the model is.

    On a terminal, the higher the entropy of a token's distribution among those so far, the stronger its
    colour. A strategy with beams shows its text at the end, without colours. With --json, every token comes
    with its entropy, its probability and what the strategy adapts, such as k, alpha, q and H_glob of GUARD.

    Args:
        model: A Hugging Face id, a folder, or 'bundled'.
        prompt: The text to continue; without one, standard input is read.
        strategy: Any strategy, such as 'top_p(p=0.9)' or 'dry + min_p'.
        amateur: The second model of contrastive decoding.
        max_new_tokens: The length limit.
        seed: The seed of what is drawn.
        chat: Give the prompt through the model's chat template.
        device: auto, cpu, cuda or cuda:1.

    Raises:
        StudyError: The model or the strategy does not exist.
    """
    parse(strategy)  # a wrong one is named before anything is loaded
    display.notice("loading the model")
    loaded = load_model(model, device=device)
    prompts = _read_prompts(sys.stdin.read() if prompt is None else prompt)
    (row,) = encode(loaded, prompts, MAX_PROMPT_TOKENS, chat=chat)
    ids: list[int] = []
    tokens: list[dict[str, Any]] = []
    shown = 0

    def paint(step: DecodedStep) -> None:
        nonlocal shown
        token = int(step.tokens[0])
        ids.append(token)
        text = continuation_text(loaded.tokenizer, row.ids, ids)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):  # more tokens of this character are to come
            text = text[:shown]
        entropy, log_z = shannon_entropy(step.logits)
        probability = (step.logits[0, token].double() - log_z[0]).exp()
        numbers = {"entropy": float(entropy[0]), "probability": float(probability)}
        numbers |= {name: float(value[0]) for name, value in step.adapted.items()}
        tokens.append({"text": text[shown:], **numbers})
        display.write(text[shown:], _newest_style([each["entropy"] for each in tokens]))
        shown = len(text)

    (text,) = generate(
        prompts,
        strategy,
        loaded,
        amateur=amateur,
        seed=seed,
        max_new_tokens=max_new_tokens,
        chat=chat,
        progress=False,
        on_step=paint,
    )
    display.write("\n" if tokens else f"{text.text}\n")
    name = text.recipe.strategy
    lines = ["", f"{name}: {text.new_tokens} tokens in {text.seconds:.1f} s; {_ENDED[text.finish]} ended it"]
    if tokens:
        values = [each["entropy"] for each in tokens]
        lines.append(f"entropy: from {min(values):.3g} to {max(values):.3g}")
    return ShownText(
        text=text.text,
        strategy=name,
        finish=text.finish,
        seconds=text.seconds,
        tokens=tuple(tokens),
        lines=tuple(lines),
    )


def _newest_style(values: list[float]) -> str:
    """Return the colour of the newest value among those so far; the lowest have none."""
    low, high = min(values), max(values)
    shade = 0 if high <= low else min(_SHADES - 1, int(_SHADES * (values[-1] - low) / (high - low)))
    pale = 255 - round(shade * 160 / (_SHADES - 1))
    return f"black on rgb(255,{pale},{max(0, 2 * pale - 255)})" if shade else ""
