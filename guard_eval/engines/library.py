"""Texts from a program or a notebook: prompts in, texts in the order of the prompts out.

    from guard_eval import Guard, generate

    texts = generate(["Once upon a time"], Guard(), model="Qwen/Qwen2.5-7B")
    print(texts[0].text)

A text is the one that a study with the same seed and settings makes of a prompt with the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import pandas as pd
from rich.progress import Progress

from guard_eval.decoding.entropy import shannon_entropy
from guard_eval.decoding.processor import DecodedStep
from guard_eval.engines.batching import BatchSizes
from guard_eval.engines.encoding import continuation_text, encode
from guard_eval.engines.generate import Generated
from guard_eval.engines.generate import generate as generate_study
from guard_eval.engines.generation import check_numbers
from guard_eval.engines.generation import generate as write_batches
from guard_eval.engines.loading import LoadedModel, check_amateur, load
from guard_eval.errors import StudyError, nearest
from guard_eval.records import Continuation, Prompt, content_id
from guard_eval.strategies import Guard, Strategy, draws, parse
from guard_eval.study.folder import BUNDLED, Study, locate_model
from guard_eval.texts.model_hub import find_models

_SHOWN = 40
"""Characters of a prompt that an error names."""


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


@dataclass(frozen=True, slots=True)
class Token:
    """One token as it is made.

    Attributes:
        text: What it adds to the text.
        entropy: H_t of the model's distribution, in nats.
        probability: The token's own, as the model has it.
        values: What the strategy adapted, by name: GUARD's `H_glob`, `k`, `alpha` and `q`, mirostat's `mu`.
    """

    text: str
    entropy: float
    probability: float
    values: dict[str, float]


class Options(TypedDict, total=False):
    """How texts are made; what is left out is as study.toml has it by default.

    Attributes:
        amateur: The second model of contrastive decoding.
        seed: What is drawn depends on it, the prompt's id, the strategy and the run alone.
        stop: A text ends before the first of these strings.
        max_new_tokens: The length limit, in tokens; 256.
        max_prompt_tokens: How many of a prompt's last tokens are kept; 256.
        chat: Whether prompts go through the model's chat template.
        device: `auto`, `cpu`, `cuda:1`, ….
        dtype: `auto`, `float32`, `bfloat16` or `float16`.
    """

    amateur: str | LoadedModel
    seed: int
    stop: Sequence[str]
    max_new_tokens: int
    max_prompt_tokens: int
    chat: bool
    device: str
    dtype: str


class SeveralOptions(Options, total=False):
    """How several texts are made.

    Attributes:
        runs: How many texts a strategy that draws writes to each prompt; 1.
        batch_size: Rows at once; as many as memory holds if left out.
        progress: Whether to show a bar; True.
    """

    runs: int
    batch_size: int | None
    progress: bool


@overload
def generate(prompts: Study, **options: Any) -> Generated: ...  # noqa: ANN401 (the command's)
@overload
def generate(
    prompts: str | Prompt | Iterable[str | Prompt],
    strategy: Strategy | str | None = None,
    model: str | LoadedModel = BUNDLED,
    **options: Unpack[SeveralOptions],
) -> Texts: ...
def generate(
    prompts: Study | str | Prompt | Iterable[str | Prompt],
    strategy: Strategy | str | None = None,
    model: str | LoadedModel = BUNDLED,
    **options: Any,
) -> Texts | Generated:
    """Return a continuation of each prompt, in their order; or write those that a study lacks.

    Args:
        prompts: One or several, as text or as `Prompt`. A text's id is made of the text. Of a `Study` the
            missing texts are written into its folder, with the options of the command `generate`.
        strategy: Such as `Guard()` or `"top_p(p=0.9)"`; GUARD if left out.
        model: A Hugging Face id, a folder, `bundled`, or what `load_model` returned.
        options: See `SeveralOptions`.

    Raises:
        StudyError: The model cannot be loaded or cannot run the strategy, or a prompt or value is not valid.
    """
    if isinstance(prompts, Study):
        return generate_study(prompts, **options)
    strategy, wanted = _read_strategy(strategy), _read_prompts(prompts)
    runs, batch_size = options.pop("runs", 1), options.pop("batch_size", None)
    progress = options.pop("progress", True)
    check_numbers(runs=runs, batch_size=1 if batch_size is None else batch_size)
    loaded, settings = _load(model, options)
    numbers = range(1, 1 + (runs if draws(strategy) else 1))
    pairs = [(prompt, run) for prompt in wanted for run in numbers]
    distinct = {(prompt.id, run): prompt for prompt, run in pairs}
    if batch_size is None:
        tokens = settings["max_new_tokens"] + settings["max_prompt_tokens"]
        sizes = BatchSizes.auto(loaded.model, tokens=tokens, copies=getattr(strategy, "beams", 1))
    else:
        sizes = BatchSizes(first=int(batch_size), most=int(batch_size))
    written: dict[tuple[str, int], Continuation] = {}
    with Progress(disable=not progress, transient=True) as bar, _named_by_their_texts(wanted):
        task = bar.add_task(str(strategy), total=len(distinct))
        for batch in write_batches(
            loaded,
            list(distinct.values()),
            strategy,
            runs=[run for _, run in distinct],
            batch_size=sizes,
            **settings,
        ):
            written |= {(text.prompt_id, text.run): text for text in batch}
            bar.advance(task, len(batch))
    return Texts([prompt for prompt, _ in pairs], [written[prompt.id, run] for prompt, run in pairs])


def watch(
    prompt: str | Prompt,
    on_token: Callable[[Token], None],
    strategy: Strategy | str | None = None,
    model: str | LoadedModel = BUNDLED,
    **options: Unpack[Options],
) -> Continuation:
    """Continue one prompt, and hand each token out as it is made; arguments as in `generate`.

    A strategy with beams knows its text in the end only: `on_token` is never called. A stop string is cut off
    the continuation, not off what was handed out.
    """
    strategy, several = _read_strategy(strategy), _read_prompts(prompt)
    if len(several) != 1:
        raise StudyError(f"watch continues one prompt, and was given {len(several)}; use generate")
    loaded, settings = _load(model, options)
    with _named_by_their_texts(several):
        (row,) = encode(loaded, several, settings["max_prompt_tokens"], chat=settings["chat"])
        stream = _TokenStream(loaded.tokenizer, row.ids, on_token)
        batches = write_batches(loaded, several, strategy, batch_size=1, on_step=stream, **settings)
        ((continuation,),) = list(batches)
    stream.finish()
    return continuation


class _TokenStream:
    """Turns steps of a batch of one into tokens with the text that each adds."""

    def __init__(self, tokenizer: Any, prompt: list[int], on_token: Callable[[Token], None]) -> None:  # noqa: ANN401
        self._tokenizer, self._prompt, self._on_token = tokenizer, prompt, on_token
        self._ids: list[int] = []
        self._shown = 0
        self._last: Token | None = None

    def __call__(self, step: DecodedStep) -> None:
        """Hand out the token before this one, whose text is known by now."""
        token = int(step.tokens[0])
        self._ids.append(token)
        entropy, _ = shannon_entropy(step.logits)
        if self._last:
            self._on_token(self._last)
        self._last = Token(
            text=self._text(whole=False),
            entropy=float(entropy[0]),
            probability=float(step.logits[0].double().softmax(-1)[token]),
            values={name: float(value[0]) for name, value in step.adapted.items()},
        )

    def finish(self) -> None:
        """Hand out the last token, with the bytes of a character that was never completed."""
        if self._last:
            self._on_token(replace(self._last, text=self._last.text + self._text(whole=True)))

    def _text(self, *, whole: bool) -> str:
        """Return what is not shown yet; a character of several tokens is U+FFFD until the last of them."""
        text = continuation_text(self._tokenizer, self._prompt, self._ids)[self._shown :]
        if not whole and text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self._shown += len(text)
        return text


def _read_strategy(strategy: Strategy | str | None) -> Strategy:
    if isinstance(strategy, str):
        return parse(strategy)
    if isinstance(strategy, type):
        raise StudyError(f"{strategy.__name__} is a class; write {strategy.__name__}() for its defaults")
    if not isinstance(strategy, Strategy | None):
        raise StudyError(f"the strategy {strategy!r:.60} is of type {type(strategy).__name__}; write Guard()")
    return Guard() if strategy is None else strategy


def _read_prompts(prompts: str | Prompt | Iterable[str | Prompt]) -> list[Prompt]:
    if isinstance(prompts, Mapping | pd.DataFrame):  # of which a loop gives the names of columns
        raise StudyError(f"prompts is of type {type(prompts).__name__}; give a list of its texts")
    several: Any = prompts if isinstance(prompts, Iterable) and not isinstance(prompts, str) else [prompts]
    by_id: dict[str, Prompt] = {}
    result = []
    for number, item in enumerate(several, 1):
        if not isinstance(item, str | Prompt):
            raise StudyError(f"prompt {number} is of type {type(item).__name__}; give text or a Prompt")
        prompt = _name_text(item) if isinstance(item, str) else item
        if by_id.setdefault(prompt.id, prompt).text != prompt.text:
            raise StudyError(f"two prompts have the id {prompt.id!r} and differ; give each its own")
        result.append(prompt)
    return result


def _name_text(text: str) -> Prompt:
    return Prompt(id=content_id("prompt", text), dataset="", text=text)


@contextmanager
def _named_by_their_texts(prompts: Sequence[Prompt]) -> Iterator[None]:
    """Name prompts in errors by what the user gave, where that was a text and the id is ours."""
    try:
        yield
    except StudyError as error:
        message = str(error)
        for prompt in prompts:
            if repr(prompt.id) in message and prompt == _name_text(prompt.text):
                begin = prompt.text if len(prompt.text) <= _SHOWN else f"{prompt.text[:_SHOWN]}…"
                message = message.replace(repr(prompt.id), repr(begin))
        raise StudyError(message) from error


def _load(model: str | LoadedModel, options: Mapping[str, Any]) -> tuple[LoadedModel, dict[str, Any]]:
    """Return the model, and the options that `generation.generate` takes, with their defaults."""
    if unknown := next((name for name in options if name not in Options.__annotations__), None):
        choice = nearest(unknown, list(Options.__annotations__))
        raise StudyError(f"there is no option {unknown!r} (a strategy has its own: TopK(k=20)): {choice}")
    seed, stop = options.get("seed", 0), options.get("stop")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise StudyError(f"seed = {seed!r} must be a whole number")
    limits = {name: options.get(name, 256) for name in ("max_new_tokens", "max_prompt_tokens")}
    check_numbers(**limits)
    amateur = options.get("amateur")
    placing = {name: str(options[name]) for name in ("device", "dtype") if name in options}
    if placing and isinstance(model, LoadedModel) and isinstance(amateur, LoadedModel | None):
        name, value = next(iter(placing.items()))
        raise StudyError(f"{name} = {value!r} has no effect on a loaded model; give it to load_model")
    loaded = load_model(model, **placing)
    if amateur is not None:
        amateur = load_model(amateur, **placing)
        check_amateur(loaded, amateur)
    return loaded, {
        "amateur": amateur,
        "seed": int(seed),  # it may be numpy's
        **{name: int(value) for name, value in limits.items()},
        "stop": () if stop is None else stop if isinstance(stop, list | tuple) else [stop],
        "chat": options.get("chat", False),
    }


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
        return model
    if not isinstance(model, str | Path):
        raise StudyError(
            f"model = {model!r:.60} is of type {type(model).__name__}; give a Hugging Face id, a folder, "
            "'bundled', or what load_model returned"
        )
    name = str(model)
    location = locate_model(name, Path())
    result = find_models({name: (location, "main")})
    if problem := result.problem():
        raise StudyError(problem)
    with result.offline():
        return load(location, name=name, device=device, dtype=dtype)
