"""Convert prompts to token ids, and generated tokens to continuations."""

import inspect
import json
import math
import random
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from types import FrameType
from typing import Literal, NoReturn, Self

from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from guard_eval import progress
from guard_eval.errors import StudyError, get_first_line
from guard_eval.files.opening import limit_memory
from guard_eval.generation.engines import Tokenizer
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.records import Continuation, Prompt, Recipe, make_content_id

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMED = 20
"""The largest number of prompts that an error names. Further prompts are only counted."""
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_OPTIONS_OF_TEMPLATES = frozenset(inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters)
"""Names that template settings cannot have, because transformers has options with these names."""
_SHOWN_CHARACTERS = 40
"""The number of characters that an error shows of a prompt's text."""
_TEMPLATE_SECONDS = 10.0
_TEMPLATE_BYTES = 2**30
_TEMPLATE_CHARACTERS = 2**20
"""The largest number of characters that a chat template may add to a prompt."""


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt with its token ids, and the number of the text to write: 1, 2, …."""

    prompt: Prompt
    ids: list[int]
    run: int = 1


def encode_prompts_that_fit(
    loaded: LoadedModel, texts: Sequence[tuple[Prompt, int]], recipe: Recipe
) -> tuple[list[EncodedPrompt], str]:
    """Encode prompts. Return the prompts that fit into the model, the longest first, and a message.

    The message names the prompts that are too long for the model, and is empty if all prompts fit.

    Raises:
        StudyError: See `encode_prompts`.
    """
    prompts = [prompt for prompt, _ in texts]
    rows = encode_prompts(
        loaded, prompts, recipe.max_prompt_tokens, chat=recipe.chat, chat_template=recipe.chat_template
    )
    if not recipe.chat:
        _warn_about_control_tokens(loaded, rows)
    context = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None) or math.inf
    if context < 0:  # XLNet uses −1 for "no limit"
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
        f"{join_prompt_names([*longer])}: too long for the model {loaded.name!r}, which reads at most "
        f"{context} tokens. The longest prompt has {len(planned[0].ids)} tokens, and max_new_tokens is "
        f"{recipe.max_new_tokens}; {remedy if room > 0 else f'set max_new_tokens below {context}'}"
    )


def encode_prompts(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    max_prompt_tokens: int,
    *,
    chat: bool = False,
    chat_template: str = "",
) -> list[EncodedPrompt]:
    """Return the last `max_prompt_tokens` tokens of each prompt.

    Tokens that the tokenizer adds before a text stay and count, because models are trained with them. Tokens
    that the tokenizer adds after a text are left out, because they would end the prompt. With `chat`, the
    prompt is the user's message, and the model's template begins the answer. The limit is then for the
    prompt's own tokens, and the template's tokens are not counted.

    Args:
        loaded: The model. The weights are not used.
        prompts: The prompts.
        max_prompt_tokens: The largest number of a prompt's tokens.
        chat: Whether prompts go through the chat template.
        chat_template: The settings of the template, as JSON.

    Raises:
        StudyError: Prompts have no tokens or unknown tokens, or the chat template refuses them. The message
            names all these prompts. Or the model has no template, or the template leaves out the prompt or
            a setting.
    """
    encode_text = partial(_encode_plain_prompt, loaded.tokenizer)
    refusal = "refused by the model's tokenizer: {}; remove the prompt, or name another model"
    if chat:
        refusal = (
            "refused by the model's chat template: {}; set generation.chat = false, or remove the prompt"
        )
        switches = _parse_chat_template_settings(loaded, chat_template)
        encode_text = partial(_encode_chat_prompt, loaded.tokenizer, switches=switches)
    rows = []
    refused: dict[str, str] = {}
    for prompt in prompts:
        label = label_prompt(prompt)
        try:
            ids = encode_text(prompt.text, limit=max_prompt_tokens)
            _refuse_unknown_tokens(loaded, ids)
            rows.append(EncodedPrompt(prompt, ids))
        except StudyError as error:
            refused[label] = str(error)
        except (TimeoutError, MemoryError) as error:
            too_much = "takes too long" if isinstance(error, TimeoutError) else "writes too much text"
            raise StudyError(
                f"{label}: the chat template of {loaded.name!r} {too_much}; set generation.chat = false, "
                "or name another model"
            ) from None
        except Exception as error:  # noqa: BLE001 (templates and tokenizers may raise any exception)
            refused[label] = refusal.format(f"{type(error).__name__}: {get_first_line(error)}")
    if refused:
        raise StudyError(f"{join_prompt_names([*refused])}: {next(iter(refused.values()))}")
    if chat and (shortest := min((prompt.text for prompt in prompts), key=len, default="")):
        encode_whole = partial(encode_text, limit=sys.maxsize)
        is_left_out = False
        with suppress(Exception):  # a template that refuses a text reads it
            is_left_out = encode_whole(shortest) == encode_whole(2 * shortest)
        if is_left_out:
            raise StudyError(
                f"the chat template of {loaded.name!r} leaves the prompt out; set generation.chat = false, "
                "or name another model"
            )
    return rows


def _parse_chat_template_settings(loaded: LoadedModel, settings_json: str) -> dict[str, object]:
    """Read the settings of a model's chat template from JSON.

    Raises:
        StudyError: The model has no chat template, or the template does not use a setting.
    """
    template = getattr(loaded.tokenizer, "chat_template", None)
    if not template:
        raise StudyError(
            f"chat needs a chat template, and the model {loaded.name!r} has none; "
            "leave chat out, or name a model that was trained to chat"
        )
    switches: dict[str, object] = json.loads(settings_json or "{}")
    for name in switches:
        if name in _OPTIONS_OF_TEMPLATES or not re.search(rf"\b{name}\b", str(template)):
            raise StudyError(
                f"generation.chat_template: the template of {loaded.name!r} does not use {name!r}; remove "
                f"{name}, or look up the template's settings on the model's page"
            )
    return switches


def _refuse_unknown_tokens(loaded: LoadedModel, ids: Sequence[int]) -> None:
    """Raise a `StudyError` if the prompt has a token id that the model does not know."""
    largest = max(ids)
    size = loaded.model.config.get_text_config().vocab_size
    if largest >= size:
        token = loaded.tokenizer.convert_ids_to_tokens(largest)
        raise StudyError(
            f"has {token!r}, which is token {largest} of the tokenizer, but the model {loaded.name!r} has "
            f"only {size} tokens; remove {token!r}, or use the tokenizer that the model was trained with"
        )


def _warn_about_control_tokens(loaded: LoadedModel, rows: Sequence[EncodedPrompt]) -> None:
    """Warn if prompts contain control tokens, which a model without a chat template does not read as text."""
    control = list_control_tokens(loaded.tokenizer).items()
    spelled = {
        label_prompt(row.prompt): token
        for row in rows
        for token, number in control
        if token in row.prompt.text and number in row.ids
    }
    if spelled:
        tokens = ", ".join(sorted(set(spelled.values())))
        named = join_prompt_names(list(spelled))
        progress.show_notice(f"{named}: the model reads {tokens} as a control token, not as text")


def label_prompt(prompt: Prompt) -> str:
    """Return a prompt's id, or the beginning of its text if the id is a hash of the text."""
    has_hash_as_id = prompt.id == make_content_id("prompt", prompt.text)
    return repr(prompt.text[:_SHOWN_CHARACTERS] if has_hash_as_id else prompt.id)


def join_prompt_names(names: Sequence[str]) -> str:
    """Name prompts for a message. A long list ends with the number of further prompts.

    >>> join_prompt_names(["'a'"]), join_prompt_names(["'a'", "'b'"])
    ("the prompt 'a'", "the prompts 'a', 'b'")
    """
    others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the prompt{'' if len(names) == 1 else 's'} {', '.join(names[:_NAMED])}{others}"


def _encode_plain_prompt(tokenizer: Tokenizer, text: str, *, limit: int) -> list[int]:
    """Encode a prompt, and keep only the last `limit` tokens.

    Raises:
        StudyError: The model cannot read the prompt. The message gives the reason.
    """
    if _LONE_SURROGATE.search(text):
        raise StudyError("not valid Unicode (a lone surrogate); correct the prompt, or remove it")
    # The text is cut below, so the tokenizer's warning about long texts would mislead.
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    start = _find_automatic_prefix_ids(tokenizer)
    if not ids and not start:
        if tokenizer.bos_token_id is None:
            raise StudyError("empty, and the model needs at least one token; remove the prompt")
        start = [tokenizer.bos_token_id]
    return start + ids[max(0, len(ids) + len(start) - limit) :]


def _find_automatic_prefix_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that a tokenizer adds before every text."""
    text_ids = tokenizer("a", add_special_tokens=False)["input_ids"]
    ids: list[int] = tokenizer("a")["input_ids"]
    length = len(text_ids)
    for position in range(len(ids) - length + 1):
        if ids[position : position + length] == text_ids:
            return ids[:position]
    return []


def _encode_chat_prompt(
    tokenizer: Tokenizer, text: str, *, limit: int, switches: dict[str, object]
) -> list[int]:
    """Encode a prompt in the chat template. A long prompt keeps only the last `limit` tokens.

    Errors: see `_encode_plain_prompt`.
    """
    content = _cut_to_last_tokens(tokenizer, text, limit)
    fill_template = partial(
        tokenizer.apply_chat_template,
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        **switches,
    )
    with _limit_time(_TEMPLATE_SECONDS):
        # A tokenizer cannot be interrupted, so the text's length is checked first.
        with limit_memory(_TEMPLATE_BYTES), _fix_date_and_randomness():
            if len(fill_template(tokenize=False)) - len(content) > _TEMPLATE_CHARACTERS:
                raise MemoryError
        # Control tokens in a prompt are data, not turns of the conversation.
        with _fix_date_and_randomness():
            encoded = fill_template(return_dict=True, sanitize_control_tokens=True)
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise StudyError("the model's chat template returns no tokens; set generation.chat = false")
    return ids


class _FixedDay(datetime):
    """A replacement of `datetime` with a fixed day, so that chat templates always write the same date."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Return 1 January 2025."""
        return cls(2025, 1, 1, tzinfo=tz)


@contextmanager
def _fix_date_and_randomness() -> Iterator[None]:
    """Fix the date and the random numbers that chat templates get while the `with` block runs."""
    state = random.getstate()
    random.seed(0)
    chat_template_utils.datetime = _FixedDay  # type: ignore[attr-defined]
    try:
        yield
    finally:
        chat_template_utils.datetime = datetime  # type: ignore[attr-defined]
        random.setstate(state)


@contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    """Raise a `TimeoutError` if the `with` block takes longer than `seconds`. Other threads have no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _raise_timeout)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)  # an outer time limit continues
        signal.signal(signal.SIGALRM, before)


def _raise_timeout(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TimeoutError


def _cut_to_last_tokens(tokenizer: Tokenizer, text: str, limit: int) -> str:
    """Cut a text to its last `limit` tokens."""
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast, verbose=False
    )
    ids = encoded["input_ids"]
    if len(ids) <= limit:
        return text
    if not tokenizer.is_fast:
        return _decode_ids(tokenizer, ids[-limit:])
    start, _ = encoded["offset_mapping"][-limit]
    return text[start:]


def list_control_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of the tokenizer's control tokens, by token. Control tokens are not part of a text."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    names = [*added, *tokenizer.all_special_tokens]  # in some tokenizers, one of the two lists is incomplete
    return {name: tokenizer.convert_tokens_to_ids(name) for name in names}


def list_end_ids(loaded: LoadedModel, stop: Sequence[str] = ()) -> list[int]:
    """Return the ids of the tokens that end a text: the tokenizer's, the model's, and those in `stop`.

    If the list is empty, only the length limit ends a text.

    Raises:
        StudyError: An end token in the model's settings is not a number, or a stop string mixes a control
            token with other text.
    """
    settings = getattr(loaded.model.generation_config, "eos_token_id", None)
    listed = settings if isinstance(settings, list) else [settings]
    named = [loaded.tokenizer.eos_token_id, *list_stop_ids(loaded.tokenizer, stop), *listed]
    ids = [token for token in named if token is not None]
    if wrong := [token for token in ids if type(token) is not int]:  # `true` would be token 1
        raise StudyError(
            f"the model {loaded.name!r}: eos_token_id = {wrong[0]!r} in its generation_config.json is not a "
            "token; write the number of the token that ends a text"
        )
    size = loaded.model.config.get_text_config().vocab_size
    return sorted({token for token in ids if 0 <= token < size})  # −1 means that the model has no end token


def list_stop_ids(tokenizer: Tokenizer, stop: Sequence[str]) -> list[int]:
    """Return the ids of the stop strings that are control tokens, such as `<|im_end|>`.

    Raises:
        StudyError: A stop string mixes a control token with other text.
    """
    control = list_control_tokens(tokenizer)
    for string in stop:
        if string not in control and (tokens := [token for token in control if token in string]):
            raise StudyError(
                f"stop = {string!r} can never match, because the control token {tokens[0]!r} is never part "
                f"of a text; write only {tokens[0]!r}"
            )
    return [control[string] for string in stop if string in control]


def list_ids_without_text(loaded: LoadedModel) -> list[int]:
    """Return the model's token ids that the tokenizer cannot convert to text.

    End tokens are left out, because they need no text.
    """
    size = loaded.model.config.get_text_config().vocab_size
    return sorted(set(range(size)) - set(loaded.tokenizer.get_vocab().values()) - set(list_end_ids(loaded)))


def decode_continuation(tokenizer: Tokenizer, prompt_ids: list[int], new_ids: list[int]) -> str:
    """Return the text that the new tokens add to the prompt's text, without special tokens.

    The new tokens are decoded together with the prompt, because SentencePiece drops a text's first space.
    """
    before = _decode_ids(tokenizer, prompt_ids)
    both = _decode_ids(tokenizer, prompt_ids + new_ids)
    return both[len(before) :] if both.startswith(before) else _decode_ids(tokenizer, new_ids)


def find_stop_string(text: str, strings: Sequence[str]) -> int | None:
    """Return the position of the first stop string in a text, or None if there is no stop string.

    >>> find_stop_string("END, and more", ["more", "END"]), find_stop_string("a text", ["END"])
    (0, None)
    """
    positions = (text.find(string) for string in strings)
    return min((position for position in positions if position >= 0), default=None)


def ends_with_stop_string(tokenizer: Tokenizer, new_ids: Sequence[int], strings: Sequence[str]) -> bool:
    """Return whether the last new token completes one of the strings."""
    # Most tokens have at least one byte, but special tokens have none, and some decoders also need earlier
    # tokens. So more tokens are decoded than the longest string has bytes.
    window = 4 * max((len(string.encode()) for string in strings), default=0) + 8
    return find_stop_string(_decode_ids(tokenizer, list(new_ids[-window:])), strings) is not None


def make_continuation(
    loaded: LoadedModel,
    recipe: Recipe,
    encoded_prompt: EncodedPrompt,
    new_ids: list[int],
    *,
    seconds: float,
    batch_size: int,
) -> Continuation:
    """Make a continuation from the tokens `new_ids`, which took `seconds` in a batch of `batch_size` texts.

    A text ends before the first stop string. Engines may write further tokens, which are cut here. An
    incomplete character at the end is removed.
    """
    prompt = encoded_prompt.prompt
    decode = partial(decode_continuation, loaded.tokenizer, encoded_prompt.ids)
    text = decode(new_ids).rstrip(_REPLACEMENT)
    finish: Literal["eos", "length", "stop"] = "eos" if new_ids[-1] in list_end_ids(loaded) else "length"
    index = find_stop_string(text, recipe.stop)
    if index is not None or new_ids[-1] in list_stop_ids(loaded.tokenizer, recipe.stop):
        finish = "stop"
    count = len(new_ids)
    if index is not None:
        count = 1  # the loop finds the smallest number of tokens whose text has the stop string
        while find_stop_string(decode(new_ids[:count]), recipe.stop) is None:
            count += 1
    return Continuation(
        id=recipe.make_continuation_id(prompt, encoded_prompt.run),
        prompt_id=prompt.id,
        dataset=prompt.dataset,
        recipe=recipe,
        text=text[:index],
        prompt_tokens=len(encoded_prompt.ids),
        new_tokens=count,
        finish=finish,
        seconds=seconds,
        batch=batch_size,
        device=loaded.device,
        versions=loaded.versions,
        run=encoded_prompt.run,
    )


def _decode_ids(tokenizer: Tokenizer, ids: list[int]) -> str:
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    try:
        text: str = tokenizer.decode(ids, **options)
    except (IndexError, KeyError, TypeError, ValueError):
        # Tokenizers in Python fail on tokens that only the model has. Other tokenizers skip such tokens.
        spelled = set(tokenizer.get_vocab().values())
        text = tokenizer.decode([token for token in ids if token in spelled], **options)
    return text
