"""Between texts and tokens: prompts to token ids, generated tokens back to continuations."""

from __future__ import annotations

import inspect
import json
import math
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any, Literal, NoReturn

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation.engines import Tokenizer
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.records import Continuation, Prompt, Recipe, content_id

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMED = 20
"""Prompts that an error names; of more it says how many."""
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_OPTIONS_OF_TEMPLATES = frozenset(inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters)
"""Names that are no settings of a template."""
_SHOWN_CHARACTERS = 40
"""How much of a prompt's text an error shows."""
_TEMPLATE_SECONDS = 10.0


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt with the token ids that the model is given, and which of its texts is to be made."""

    prompt: Prompt
    ids: list[int]
    run: int = 1


def encode_texts(
    loaded: LoadedModel, texts: Sequence[tuple[Prompt, int]], recipe: Recipe
) -> tuple[list[EncodedPrompt], str]:
    """Return the texts' prompts in tokens, the longest first, and what to say of those that are too long.

    Raises:
        StudyError: See `encode`.
    """
    prompts = [prompt for prompt, _ in texts]
    rows = encode(
        loaded, prompts, recipe.max_prompt_tokens, chat=recipe.chat, chat_template=recipe.chat_template
    )
    if not recipe.chat:
        _notice_control(loaded, rows)
    context = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None) or math.inf
    if context < 0:  # XLNet's way to say that there is no limit
        context = math.inf
    room = context - recipe.max_new_tokens
    planned = [replace(row, run=run) for row, (_, run) in zip(rows, texts, strict=True)]
    planned.sort(key=lambda row: (-len(row.ids), row.prompt.id, row.run))
    fitting = [row for row in planned if len(row.ids) <= room]
    if len(fitting) == len(planned):
        return fitting, ""
    longer = {label_prompt(row.prompt): None for row in rows if len(row.ids) > room}
    remedy = f"set max_prompt_tokens to {room} or less, or lower max_new_tokens"
    return fitting, (
        f"{name_prompts([*longer])}: with max_new_tokens = {recipe.max_new_tokens} more than the {context} "
        f"tokens that the model {loaded.name!r} can hold ({len(planned[0].ids)} in the longest prompt); "
        + (remedy if room > 0 else f"set max_new_tokens below {context}")
    )


def encode(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    max_prompt_tokens: int,
    *,
    chat: bool = False,
    chat_template: str = "",
) -> list[EncodedPrompt]:
    """Return each prompt's tokens, of which the last `max_prompt_tokens` are kept.

    Tokens that the tokenizer puts before a text stay in front, and count: models were trained to see them
    first. Those that it puts behind a text are left out, for they would end the prompt. With `chat` the
    prompt is the user's message, and the model's template opens its answer; then the limit is on the prompt's
    own tokens, and the template, which may not be cut, comes on top.

    Args:
        loaded: The model; its weights are not used.
        prompts: The prompts.
        max_prompt_tokens: How many of a prompt's last tokens are kept.
        chat: Whether the prompts go through the chat template.
        chat_template: The template's own settings, as JSON.

    Raises:
        StudyError: Prompts have no tokens, or tokens that the model lacks, or the template refuses them (all
            are named), or there is no template, or it has no such setting.
    """
    encode_text = partial(_encode, loaded.tokenizer, limit=max_prompt_tokens)
    if chat:
        switches = _read_switches(loaded, chat_template)
        encode_text = partial(_encode_chat, loaded.tokenizer, switches=switches, limit=max_prompt_tokens)
    rows = []
    refused: dict[str, str] = {}
    for prompt in prompts:
        label = label_prompt(prompt)
        try:
            ids = encode_text(prompt.text)
            _check_ids(loaded, ids)
            rows.append(EncodedPrompt(prompt, ids))
        except StudyError as error:
            refused[label] = str(error)
        except TimeoutError:
            raise StudyError(
                f"{label}: the chat template of {loaded.name!r} does not end; set generation.chat = false, "
                "or name another model"
            ) from None
    if refused:
        raise StudyError(f"{name_prompts([*refused])}: {next(iter(refused.values()))}")
    return rows


def _read_switches(loaded: LoadedModel, settings: str) -> dict[str, Any]:
    """Return the settings of a model's chat template, from JSON.

    Raises:
        StudyError: There is no template, or it has no such setting.
    """
    template = getattr(loaded.tokenizer, "chat_template", None)
    if not template:
        raise StudyError(
            f"generation.chat = true, but the model {loaded.name!r} has no chat template; "
            "set generation.chat = false, or name a model that was trained to chat"
        )
    switches: dict[str, Any] = json.loads(settings or "{}")
    for name in switches:
        if name in _OPTIONS_OF_TEMPLATES or not re.search(rf"\b{name}\b", str(template)):
            raise StudyError(
                f"generation.chat_template: the template of {loaded.name!r} reads no {name!r}; remove it, or "
                "see the model's page for the settings of its template"
            )
    return switches


def _check_ids(loaded: LoadedModel, ids: Sequence[int]) -> None:
    """Refuse tokens that only the tokenizer has; models with an unused end of the vocabulary are common."""
    largest, size = max(ids), loaded.model.config.get_text_config().vocab_size
    if largest >= size:
        token = loaded.tokenizer.convert_ids_to_tokens(largest)
        raise StudyError(
            f"has {token!r}, which the tokenizer numbers {largest}, but the model {loaded.name!r} has {size} "
            "tokens; remove it, or put the tokenizer beside the model that it was trained with"
        )


def _notice_control(loaded: LoadedModel, rows: Sequence[EncodedPrompt]) -> None:
    """Say which prompts spell control tokens, which a model reads as such where there is no chat template."""
    control = control_tokens(loaded.tokenizer).items()
    spelled = {
        label_prompt(row.prompt): token
        for row in rows
        for token, number in control
        if token in row.prompt.text and number in row.ids
    }
    if spelled:
        tokens = ", ".join(sorted(set(spelled.values())))
        named = name_prompts(list(spelled))
        progress.notice(f"{named}: the model reads {tokens} as a control token, not as text")


def label_prompt(prompt: Prompt) -> str:
    """Return a prompt's id, or the beginning of its text where the id is made of the text."""
    made_of_text = prompt.id == content_id("prompt", prompt.text)
    return repr(prompt.text[:_SHOWN_CHARACTERS] if made_of_text else prompt.id)


def name_prompts(names: Sequence[str]) -> str:
    """Return prompts as a message names them: all of them, or the first and how many more there are.

    >>> name_prompts(["'a'"]), name_prompts(["'a'", "'b'"])
    ("the prompt 'a'", "the prompts 'a', 'b'")
    """
    others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the prompt{'' if len(names) == 1 else 's'} {', '.join(names[:_NAMED])}{others}"


def _encode(tokenizer: Tokenizer, text: str, *, limit: int) -> list[int]:
    """Return a prompt's last tokens.

    Raises:
        StudyError: The model cannot be given it; the message says why.
    """
    if _LONE_SURROGATE.search(text):
        raise StudyError("not valid Unicode (a lone surrogate); fix or remove it")
    # The length is ours to limit, so the tokenizer's warning about long texts would only mislead.
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    start = _find_start(tokenizer)
    if not ids and not start and tokenizer.bos_token_id is not None:
        start = [tokenizer.bos_token_id]
    if not ids and not start:
        raise StudyError("empty, and the model has no token to start from; remove it")
    return start + ids[max(0, len(ids) + len(start) - limit) :]


def _find_start(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that a tokenizer puts before every text."""
    alone = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole: list[int] = tokenizer("a")["input_ids"]
    positions = range(len(whole) - len(alone) + 1)
    return whole[: next((at for at in positions if whole[at : at + len(alone)] == alone), 0)]


def _encode_chat(tokenizer: Tokenizer, text: str, *, limit: int, switches: dict[str, Any]) -> list[int]:
    """Return the tokens of the template around a prompt's last tokens; raises as `_encode`."""
    try:
        # Control tokens that a prompt spells out are data, not turns of the conversation.
        with _time_limit(_TEMPLATE_SECONDS):
            encoded = tokenizer.apply_chat_template(
                [{"role": "user", "content": _last_tokens(tokenizer, text, limit)}],
                add_generation_prompt=True,
                return_dict=True,
                sanitize_control_tokens=True,
                **switches,
            )
    except TimeoutError:
        raise
    except Exception as error:  # a template is a program, which may raise anything
        reason = error if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
        raise StudyError(
            f"refused by the model's chat template: {reason}; set generation.chat = false, or remove it"
        ) from error
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise StudyError("left empty by the model's chat template; set generation.chat = false")
    return ids


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise a `TimeoutError` in a block of other people's code that takes longer, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)  # another limit goes on from where it was
        signal.signal(signal.SIGALRM, before)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TimeoutError


def _last_tokens(tokenizer: Tokenizer, text: str, limit: int) -> str:
    """Return the text of the last `limit` tokens: an end of `text`, if the tokenizer gives offsets."""
    fast = tokenizer.is_fast
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
    ids = encoded["input_ids"]
    if len(ids) <= limit:
        return text
    return text[encoded["offset_mapping"][-limit][0] :] if fast else _decode(tokenizer, ids[-limit:])


def control_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of the tokens that are no part of a text, by how they are spelled."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    names = [*added, *tokenizer.all_special_tokens]  # of some tokenizers one has what the other lacks
    return {name: tokenizer.convert_tokens_to_ids(name) for name in names}


def eos_ids(loaded: LoadedModel, stop: Sequence[str] = ()) -> list[int]:
    """Return the tokens that end a text: the tokenizer's, the model's, and those among the stop strings.

    Without any, only the length limit ends a text.

    Raises:
        StudyError: The model's settings name something that is no token, or a stop string holds a control
            token beside other text.
    """
    settings = getattr(loaded.model.generation_config, "eos_token_id", None)
    listed = settings if isinstance(settings, list) else [settings]
    named = [loaded.tokenizer.eos_token_id, *stop_ids(loaded.tokenizer, stop), *listed]
    ids = [token for token in named if token is not None]
    if wrong := [token for token in ids if type(token) is not int]:  # true would be token 1
        raise StudyError(
            f"the model {loaded.name!r}: eos_token_id = {wrong[0]!r} in its generation_config.json is no "
            "token; write the number of the token that ends a text"
        )
    size = loaded.model.config.get_text_config().vocab_size
    return sorted({token for token in ids if 0 <= token < size})  # −1 stands for none


def stop_ids(tokenizer: Tokenizer, stop: Sequence[str]) -> list[int]:
    """Return the control tokens among the stop strings; no text has these, so their ids are looked for.

    Raises:
        StudyError: A stop string holds a control token beside other text.
    """
    control = control_tokens(tokenizer)
    for string in stop:
        if string not in control and (tokens := [token for token in control if token in string]):
            raise StudyError(
                f"stop = {string!r} would never be met: {tokens[0]!r} is a control token and no part of a "
                f"text; write {tokens[0]!r} alone"
            )
    return [control[string] for string in stop if string in control]


def absent_ids(loaded: LoadedModel) -> list[int]:
    """Return the ids that the model has and its tokenizer has not: such rows only fill up its tables.

    A token that ends a text needs no spelling.
    """
    size = loaded.model.config.get_text_config().vocab_size
    return sorted(set(range(size)) - set(loaded.tokenizer.get_vocab().values()) - set(eos_ids(loaded)))


def continuation_text(tokenizer: Tokenizer, prompt_ids: list[int], new_ids: list[int]) -> str:
    """Return what the new tokens add to the prompt's text, special tokens left out.

    Decoded alone, SentencePiece's tokens would lose the space that they begin with.
    """
    before, both = _decode(tokenizer, prompt_ids), _decode(tokenizer, prompt_ids + new_ids)
    return both[len(before) :] if both.startswith(before) else _decode(tokenizer, new_ids)


def find_stop(text: str, strings: Sequence[str]) -> int | None:
    """Return where the first of the stop strings begins in a text, or None.

    >>> find_stop("END, and more", ["more", "END"]), find_stop("a text", ["END"])
    (0, None)
    """
    return min((at for string in strings if (at := text.find(string)) >= 0), default=None)


def ends_with_stop(tokenizer: Tokenizer, new: Sequence[int], strings: Sequence[str]) -> bool:
    """Return whether the last of the `new` tokens completes one of the strings."""
    # A token has one byte or more, special tokens none; decoders look back at a few tokens before.
    window = 4 * max((len(string.encode()) for string in strings), default=0) + 8
    return find_stop(_decode(tokenizer, list(new[-window:])), strings) is not None


def make_continuation(
    loaded: LoadedModel, recipe: Recipe, row: EncodedPrompt, new: list[int], *, seconds: float, batch: int
) -> Continuation:
    """Return the continuation of the tokens `new`, which took `seconds` in a batch of `batch` texts.

    A text with a stop string ends before it. Engines may write more tokens, which are cut here. A character
    of which the last tokens have only a part is left out.
    """
    text = continuation_text(loaded.tokenizer, row.ids, new).rstrip(_REPLACEMENT)
    finish: Literal["eos", "length", "stop"] = "eos" if new[-1] in eos_ids(loaded) else "length"
    if new[-1] in stop_ids(loaded.tokenizer, recipe.stop):
        finish = "stop"
    index = count = find_stop(text, recipe.stop)
    if index is not None:
        finish, count = "stop", 1
        while find_stop(continuation_text(loaded.tokenizer, row.ids, new[:count]), recipe.stop) is None:
            count += 1
    return Continuation(
        id=recipe.continuation_id(row.prompt, row.run),
        prompt_id=row.prompt.id,
        dataset=row.prompt.dataset,
        recipe=recipe,
        text=text[:index],
        prompt_tokens=len(row.ids),
        new_tokens=count or len(new),
        finish=finish,
        seconds=seconds,
        batch=batch,
        device=loaded.device,
        versions=loaded.versions,
        run=row.run,
    )


def _decode(tokenizer: Tokenizer, ids: list[int]) -> str:
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    try:
        text: str = tokenizer.decode(ids, **options)
    except (IndexError, KeyError, TypeError, ValueError):
        # Tokenizers in Python fail on tokens that only the model has; the others leave them out.
        spelled = set(tokenizer.get_vocab().values())
        text = tokenizer.decode([token for token in ids if token in spelled], **options)
    return text
