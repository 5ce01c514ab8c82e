"""Between texts and tokens: prompts to token ids, generated tokens back to continuations."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError

from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.time_limit import time_limit
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe, content_id

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMED = 20
"""Prompts that an error names; of more it says how many."""
_SHOWN_CHARACTERS = 40
"""How much of a prompt's text an error shows."""
_TEMPLATE_SECONDS = 10.0


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt with the token ids that the model is given, and which of its texts is to be made."""

    prompt: Prompt
    ids: list[int]
    run: int = 1


def encode(
    loaded: LoadedModel, prompts: Sequence[Prompt], max_prompt_tokens: int, *, chat: bool = False
) -> list[EncodedPrompt]:
    """Return each prompt's tokens, of which the last `max_prompt_tokens` are kept.

    A beginning-of-text token that the tokenizer sets stays in front, and counts: models were trained to see
    it first. With `chat` the prompt is the user's message, and the model's template opens its answer; then
    the limit is on the prompt's own tokens, and the template, which may not be cut, comes on top.

    Raises:
        StudyError: Prompts have no tokens, or the template refuses them (all are named), or there is no
            template.
    """
    tokenizer = loaded.tokenizer
    if chat and not getattr(tokenizer, "chat_template", None):
        raise StudyError(
            f"generation.chat = true, but the model {loaded.name!r} has no chat template; "
            "set generation.chat = false, or name a model that was trained to chat"
        )
    encode_prompt = _encode_chat if chat else _encode
    rows, refused = [], []
    for prompt in prompts:
        try:
            rows.append(EncodedPrompt(prompt, encode_prompt(tokenizer, prompt.text, max_prompt_tokens)))
        except StudyError as error:
            refused.append((label_prompt(prompt), str(error)))
        except TimeoutError:
            raise StudyError(
                f"{label_prompt(prompt)}: the chat template of {loaded.name!r} does not end; set "
                "generation.chat = false, or name another model"
            ) from None
    if refused:
        raise StudyError(f"{name_prompts([label for label, _ in refused])}: {refused[0][1]}")
    return rows


def split_by_length(
    loaded: LoadedModel, rows: Sequence[EncodedPrompt], max_new_tokens: int
) -> tuple[list[EncodedPrompt], str | None]:
    """Return the prompts that leave room for the new tokens, and what to say of the others, if any."""
    context = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None) or math.inf
    room = context - max_new_tokens
    longer = [row for row in rows if len(row.ids) > room]
    if not longer:
        return list(rows), None
    names = list(dict.fromkeys(label_prompt(row.prompt) for row in longer))
    remedy = f"set max_prompt_tokens to {room} or less, or lower max_new_tokens"
    return [row for row in rows if len(row.ids) <= room], (
        f"{name_prompts(names)}: with max_new_tokens = {max_new_tokens} more than the {context} tokens that "
        f"the model {loaded.name!r} can hold ({max(len(row.ids) for row in longer)} in the longest prompt); "
        + (remedy if room > 0 else f"set max_new_tokens below {context}")
    )


def label_prompt(prompt: Prompt) -> str:
    """Return a prompt's id, or the beginning of its text where the id is made of the text."""
    made_of_text = prompt.id == content_id("prompt", prompt.text)
    return repr(prompt.text[:_SHOWN_CHARACTERS] if made_of_text else prompt.id)


def name_prompts(names: Sequence[str]) -> str:
    """Return prompts as a message names them: all of them, or the first and how many more there are.

    >>> name_prompts(["'a'"]), name_prompts(["'a'", "'b'"])
    ("the prompt 'a'", "the prompts 'a', 'b'")
    """
    named = ", ".join(names[:_NAMED])
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the prompt{'' if len(names) == 1 else 's'} {named}{rest}"


def _encode(tokenizer: Any, text: str, limit: int) -> list[int]:  # noqa: ANN401
    """Return a prompt's last tokens.

    Raises:
        StudyError: The model cannot be given it; the message says why.
    """
    if _LONE_SURROGATE.search(text):
        raise StudyError("not valid Unicode (a lone surrogate); fix or remove it")
    # The length is ours to limit, so the tokenizer's warning about long texts would only mislead.
    ids: list[int] = tokenizer(text, verbose=False)["input_ids"]
    bos = tokenizer.bos_token_id
    if not ids and bos is not None:
        ids = [bos]
    if not ids:
        raise StudyError("empty, and the model has no token to start from; remove it")
    start = ids[:1] if ids[0] == bos else []
    return ids if len(ids) <= limit else start + ids[len(ids) - limit + len(start) :]


def _encode_chat(tokenizer: Any, text: str, limit: int) -> list[int]:  # noqa: ANN401
    """Return the tokens of the template around a prompt's last tokens; raises as `_encode`."""
    try:
        # Control tokens that a prompt spells out are data, not turns of the conversation.
        with time_limit(_TEMPLATE_SECONDS):
            encoded = tokenizer.apply_chat_template(
                [{"role": "user", "content": _last_tokens(tokenizer, text, limit)}],
                add_generation_prompt=True,
                return_dict=True,
                sanitize_control_tokens=True,
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


def _last_tokens(tokenizer: Any, text: str, limit: int) -> str:  # noqa: ANN401
    """Return the text of the last `limit` tokens: an end of `text`, if the tokenizer gives offsets."""
    fast = tokenizer.is_fast
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
    ids = encoded["input_ids"]
    if len(ids) <= limit:
        return text
    return text[encoded["offset_mapping"][-limit][0] :] if fast else _decode(tokenizer, ids[-limit:])


def eos_ids(loaded: LoadedModel) -> list[int]:
    """Return the tokens that end a text: the tokenizer's and the model's; without any only the limit does."""
    settings = loaded.model.generation_config
    listed = getattr(settings, "eos_token_id", None)
    ids = set(listed if isinstance(listed, list) else [listed]) | {loaded.tokenizer.eos_token_id}
    return sorted(token for token in ids if token is not None)


def continuation_text(tokenizer: Any, prompt_ids: list[int], new_ids: list[int]) -> str:  # noqa: ANN401
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


def ends_with_stop(tokenizer: Any, new: Sequence[int], strings: Sequence[str]) -> bool:  # noqa: ANN401
    """Return whether the last of the `new` tokens completes one of the strings."""
    # A token has one byte or more, special tokens none; decoders look back at a few tokens before.
    window = 4 * max((len(string.encode()) for string in strings), default=0) + 8
    return find_stop(_decode(tokenizer, list(new[-window:])), strings) is not None


def make_continuation(
    loaded: LoadedModel, recipe: Recipe, row: EncodedPrompt, new: list[int], *, seconds: float, batch: int
) -> Continuation:
    """Return the continuation of the tokens `new`, which took `seconds` in a batch of `batch` texts.

    A text with a stop string ends before it. Engines may write more tokens, which are cut here.
    """
    text = continuation_text(loaded.tokenizer, row.ids, new)
    finish: Literal["eos", "length", "stop"] = "eos" if new[-1] in eos_ids(loaded) else "length"
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


def _decode(tokenizer: Any, ids: list[int]) -> str:  # noqa: ANN401
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    try:
        text: str = tokenizer.decode(ids, **options)
    except (IndexError, KeyError, TypeError, ValueError):
        # Tokenizers in Python fail on tokens that only the model has; the others leave them out.
        known = set(tokenizer.get_vocab().values())
        text = tokenizer.decode([token for token in ids if token in known], **options)
    return text
