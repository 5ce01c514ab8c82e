"""Write texts from a program or a notebook, and run the command `try`.

A study with the same seed and settings writes the same text for a prompt with the same id.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
from rich.progress import Progress

from guard_eval import progress as display
from guard_eval.errors import StudyError
from guard_eval.generation.decoding.entropy import shannon_entropy
from guard_eval.generation.decoding.processor import DecodedStep
from guard_eval.generation.engines.decode import Writer
from guard_eval.generation.engines.encoding import decode_continuation, encode_prompts
from guard_eval.generation.engines.loading import LoadedModel, check_shared_vocabulary, load_pretrained
from guard_eval.generation.strategies import (
    Strategy,
    convert_numpy_number,
    convert_to_strategy,
    is_stochastic,
    parse,
)
from guard_eval.records import Continuation, Prompt, make_content_id, record
from guard_eval.results import Result
from guard_eval.study.system_settings import BUNDLED, GenerationSettings, locate_model
from guard_eval.study.toml import validate_toml_tables
from guard_eval.texts.models import find_local_and_hub_models

MAX_PROMPT_TOKENS = 256
"""The default limit of a prompt's length, in tokens. A longer prompt keeps its end."""
_SHADES = 10
"""The number of colours for tokens, from no colour to the strongest colour."""
_ENDED = {"eos": "the model", "length": "the length limit", "stop": "a stop string"}


class _Settings(GenerationSettings):
    """The arguments of `generate` that have the same name in study.toml, with the same checks."""

    seed: int


class Texts(list[Continuation]):
    """A list of continuations in the order of their prompts. All runs of a prompt are next to each other."""

    def __init__(self, prompts: Sequence[Prompt], continuations: Sequence[Continuation]) -> None:
        """Store the continuations and their prompts. `prompts[i]` is the prompt of `continuations[i]`."""
        super().__init__(continuations)
        self._prompts = prompts

    def iterate_with_prompts(self) -> Iterator[tuple[Prompt, Continuation]]:
        """Return an iterator over pairs of a prompt and its text."""
        return zip(self._prompts, self, strict=True)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas table with a row for each text.

        The columns are the prompt, the strategy, the run, the text, the number of tokens, and `finish`, which
        says why the text ended.
        """
        return pd.DataFrame(
            [
                (p.id, p.text, text.recipe.strategy, text.run, text.text, text.new_tokens, text.finish)
                for p, text in self.iterate_with_prompts()
            ],
            columns=["prompt_id", "prompt", "strategy", "run", "text", "new_tokens", "finish"],
        )

    def __repr__(self) -> str:
        """Describe the list in a few words, such as `<4 texts by guard>`."""
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
    """Write a continuation of each prompt, and return the continuations in the order of the prompts.

    Args:
        prompts: One or several prompts, as text or as `Prompt`. A prompt given as text gets a hash as its id.
        strategy: A strategy, such as `Guard()` or `"top_p(p=0.9)"`.
        model: A Hugging Face id, a folder, `bundled`, or the result of `load_model`.
        amateur: The second, smaller model of contrastive decoding.
        seed: A whole number. Random draws depend only on the seed, the prompt's id, the strategy and the run.
        runs: The number of texts for each prompt by a strategy that draws.
        stop: Strings that end a text. The string itself is left out.
        max_new_tokens: The largest length of a text, in tokens.
        max_prompt_tokens: The largest length of a prompt, in tokens. A longer prompt keeps its end.
        chat: Send prompts through the model's chat template.
        device: The device; see `load_model`.
        dtype: The number format; see `load_model`.
        batch_size: The number of texts that are written at once. Default: `auto` in docs/study_toml.md.
        progress: Whether to show a progress bar.
        on_step: A function that is called after each step of a batch. Strategies with beams do not call it.

    Raises:
        StudyError: The model cannot be loaded or cannot run the strategy, or a prompt or value is not valid.
    """
    all_prompts = _convert_to_prompts(prompts)
    strategy = convert_to_strategy(strategy)
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
    settings = validate_toml_tables(
        _Settings, {name: convert_numpy_number(value) for name, value in values.items()}, "generate"
    )
    if on_step is not None and not callable(on_step):
        raise StudyError(f"on_step = {on_step!r:.60} is not a function; give a function of one step")
    loaded = load_model(model, device=device, dtype=dtype)
    second = None
    if amateur is not None:
        second = load_model(amateur, device=device, dtype=dtype)
        check_shared_vocabulary(loaded, second)
    repeats = settings.runs if is_stochastic(strategy) else 1
    pairs = [(prompt, 1 + run) for prompt in all_prompts for run in range(repeats)]
    distinct = {(prompt.id, run): (prompt, run) for prompt, run in pairs}
    writer = Writer(
        loaded=loaded,
        strategy=strategy,
        settings=settings,
        seed=settings.seed,
        amateur=second,
        on_step=on_step,
    )
    written: dict[tuple[str, int], Continuation] = {}
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task(str(strategy), total=len(distinct))
        for batch in writer.generate_batches(list(distinct.values())):
            written |= {(text.prompt_id, text.run): text for text in batch.texts}
            bar.advance(task, len(batch.texts))
    return Texts([prompt for prompt, _ in pairs], [written[prompt.id, run] for prompt, run in pairs])


def _convert_to_prompts(prompts: str | Prompt | Iterable[str | Prompt]) -> list[Prompt]:
    if isinstance(prompts, Mapping | pd.DataFrame):  # a loop over one would give the names of its columns
        raise StudyError(f"prompts is of type {type(prompts).__name__}; give a list of its texts")
    items: Iterable[object] = (
        prompts if isinstance(prompts, Iterable) and not isinstance(prompts, str) else [prompts]
    )
    by_id: dict[str, Prompt] = {}
    result = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, str | Prompt):
            raise StudyError(f"prompt {number} is of type {type(item).__name__}; give a string or a Prompt")
        prompt = item
        if isinstance(prompt, str):
            prompt = Prompt(id=make_content_id("prompt", prompt), dataset="", text=prompt)
        if by_id.setdefault(prompt.id, prompt).text != prompt.text:
            raise StudyError(f"two different prompts have the id {prompt.id!r}; give each prompt another id")
        result.append(prompt)
    return result


def load_model(
    model: str | Path | LoadedModel = BUNDLED, *, device: str = "auto", dtype: str = "auto"
) -> LoadedModel:
    """Load a model, so that `generate` can use it several times; see `loading.load_pretrained`.

    Args:
        model: A Hugging Face id, a folder, or `bundled`. A loaded model is returned as it is.
        device: `auto`, `cpu`, `cuda:1`, ….
        dtype: `auto`, `float32`, `bfloat16` or `float16`.

    Raises:
        StudyError: The model does not exist, or it is not on this machine and the Hub cannot be reached.
    """
    if isinstance(model, LoadedModel):
        if (device, dtype) != ("auto", "auto"):
            raise StudyError("device and dtype have no effect on a loaded model; give them to load_model")
        return model
    if not isinstance(model, str | Path):
        raise StudyError(
            f"model = {model!r:.60} is not a model; give a Hugging Face id, a folder, or 'bundled'"
        )
    name = str(model)
    location = locate_model(name, Path())
    result = find_local_and_hub_models({name: (location, "main")})
    if problem := result.problem:
        raise StudyError(problem)
    with result.skip_unreachable_hub():
        return load_pretrained(location, name=name, device=device, dtype=dtype)


@record
class ShownText(Result):
    """A text with the entropy and probability of each token.

    Attributes:
        text: The text.
        strategy: The signature of the strategy.
        finish: Why the text ended: `eos`, `length` or `stop`.
        seconds: The generation time.
        tokens: The text, entropy (nats) and probability of each token, and the values that the strategy
            adapts. The list is empty for a strategy with beams.
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
    """Show one text while a strategy writes it, coloured by the model's uncertainty.

    On a terminal, a token's colour is stronger if the entropy of its distribution is higher than that of the
    tokens before. A strategy with beams shows its text at the end, without colours. With --json, every token
    has its entropy, its probability and the values that the strategy adapts, such as k, alpha, q and H_glob
    of GUARD.

    Args:
        model: The language model: a Hugging Face id, a folder, or 'bundled', a small one for a first try.
        prompt: The text to continue. Default: standard input.
        strategy: The strategy that writes the text, such as 'top_p(p=0.9)' or 'dry + min_p'.
        amateur: The second, smaller model that contrastive decoding needs.
        max_new_tokens: The largest length of the text, in tokens.
        seed: The seed of all random draws.
        chat: Apply the model's chat template to the prompt.
        device: The device for the model: auto, cpu, cuda or cuda:1.

    Raises:
        StudyError: The model or the strategy does not exist.
    """
    parse(strategy)  # a wrong signature is reported before the model is loaded
    display.show_notice("loading the model")
    loaded = load_model(model, device=device)
    prompts = _convert_to_prompts(sys.stdin.read() if prompt is None else prompt)
    (row,) = encode_prompts(loaded, prompts, MAX_PROMPT_TOKENS, chat=chat)
    ids: list[int] = []
    tokens: list[dict[str, str | float]] = []
    entropies: list[float] = []
    shown_characters = 0

    def show_token(step: DecodedStep) -> None:
        nonlocal shown_characters
        token = int(step.tokens[0])
        ids.append(token)
        text = decode_continuation(loaded.tokenizer, row.ids, ids)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):  # the character is complete only with the next tokens
            text = text[:shown_characters]
        entropy, log_z = shannon_entropy(step.logits)
        entropies.append(float(entropy[0]))
        probability = (step.logits[0, token].double() - log_z[0]).exp()
        numbers = {"entropy": entropies[-1], "probability": float(probability)}
        numbers |= {name: float(value[0]) for name, value in step.adapted.items()}
        tokens.append({"text": text[shown_characters:], **numbers})
        display.print_text(text[shown_characters:], _choose_uncertainty_colour(entropies))
        shown_characters = len(text)

    (text,) = generate(
        prompts,
        strategy,
        loaded,
        amateur=amateur,
        seed=seed,
        max_new_tokens=max_new_tokens,
        chat=chat,
        progress=False,
        on_step=show_token,
    )
    display.print_text("\n" if tokens else f"{text.text}\n")
    name = text.recipe.strategy
    lines = ["", f"{name}: {text.new_tokens} tokens in {text.seconds:.1f} s; {_ENDED[text.finish]} ended it"]
    if entropies:
        lines.append(f"entropy: from {min(entropies):.3g} to {max(entropies):.3g}")
    return ShownText(
        text=text.text,
        strategy=name,
        finish=text.finish,
        seconds=text.seconds,
        tokens=tuple(tokens),
        lines=tuple(lines),
    )


def _choose_uncertainty_colour(entropies: list[float]) -> str:
    """Return the colour of the last token: the closer its entropy is to the highest, the stronger."""
    low = min(entropies)
    high = max(entropies)
    if high <= low:
        return ""
    share = (entropies[-1] - low) / (high - low)
    shade = min(_SHADES - 1, int(_SHADES * share))
    if shade == 0:
        return ""
    green = 255 - round(shade * 160 / (_SHADES - 1))
    blue = max(0, 2 * green - 255)
    return f"black on rgb(255,{green},{blue})"
