"""Between texts and tokens: prompts to token ids, generated tokens back to continuations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError

from guard_eval.engines.loading import LoadedModel
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies.kinds import DRY_BREAKERS

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMED = 20
"""Prompts that an error names; of more it says how many."""


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
    one = _encode_chat if chat else _encode
    rows, refused = [], []
    for prompt in prompts:
        try:
            rows.append(EncodedPrompt(prompt, one(tokenizer, prompt, max_prompt_tokens)))
        except _RefusedPromptError as error:
            refused.append((prompt.id, str(error)))
    if refused:
        raise StudyError(f"{name_prompts([repr(name) for name, _ in refused])}: {refused[0][1]}")
    return rows


def check_context(loaded: LoadedModel, encoded: Sequence[EncodedPrompt], max_new_tokens: int) -> None:
    """Make sure that the prompts and as many new tokens are no longer than the model's context.

    Raises:
        StudyError: The longest prompt is; the message says by which limit it would fit.
    """
    context = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    if context is None or not encoded:
        return
    longest = max(encoded, key=lambda row: len(row.ids))
    if len(longest.ids) + max_new_tokens > context:
        room = context - max_new_tokens
        shorter = f"set max_prompt_tokens to {room} or less, or lower max_new_tokens"
        raise StudyError(
            f"the prompt {longest.prompt.id!r} has {len(longest.ids)} tokens, and with max_new_tokens = "
            f"{max_new_tokens} more it exceeds the {context} that the model {loaded.name!r} can hold; "
            + (shorter if room > 0 else f"set max_new_tokens below {context}")
        )


class _RefusedPromptError(Exception):
    """Why the model cannot be given a prompt, and what to do."""


def name_prompts(names: Sequence[str]) -> str:
    """Return prompts as a message names them: all of them, or the first and how many more there are.

    >>> name_prompts(["'a'"]), name_prompts(["'a'", "'b'"])
    ("the prompt 'a'", "the prompts 'a', 'b'")
    """
    named = ", ".join(names[:_NAMED])
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the prompt{'' if len(names) == 1 else 's'} {named}{rest}"


def _valid(text: str) -> str:
    if _LONE_SURROGATE.search(text):
        raise _RefusedPromptError("not valid Unicode (a lone surrogate); fix or remove it")
    return text


def _encode(tokenizer: Any, prompt: Prompt, limit: int) -> list[int]:  # noqa: ANN401
    # The length is ours to limit, so the tokenizer's warning about long texts would only mislead.
    ids: list[int] = tokenizer(_valid(prompt.text), verbose=False)["input_ids"]
    bos = tokenizer.bos_token_id
    if not ids and bos is not None:
        ids = [bos]
    if not ids:
        raise _RefusedPromptError("empty, and the model has no token to start from; remove it")
    start = ids[:1] if ids[0] == bos else []
    return ids if len(ids) <= limit else start + ids[len(ids) - limit + len(start) :]


def _encode_chat(tokenizer: Any, prompt: Prompt, limit: int) -> list[int]:  # noqa: ANN401
    conversation = [{"role": "user", "content": _last_tokens(tokenizer, _valid(prompt.text), limit)}]
    try:
        # Control tokens that a prompt spells out are data, not turns of the conversation.
        encoded = tokenizer.apply_chat_template(
            conversation, add_generation_prompt=True, return_dict=True, sanitize_control_tokens=True
        )
    except Exception as error:  # a template is a program, which may raise anything
        reason = error if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
        raise _RefusedPromptError(
            f"refused by the model's chat template: {reason}; set generation.chat = false, or remove it"
        ) from error
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise _RefusedPromptError("left empty by the model's chat template; set generation.chat = false")
    return ids


def _last_tokens(tokenizer: Any, text: str, limit: int) -> str:  # noqa: ANN401
    """Return the text of the last `limit` tokens: an end of `text`, if the tokenizer gives offsets."""
    if not tokenizer.is_fast:
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return text if len(ids) <= limit else _decode(tokenizer, ids[-limit:])
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    places: list[tuple[int, int]] = encoded["offset_mapping"]
    return text if len(places) <= limit else text[places[-limit][0] :]


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
    return _texts(tokenizer, prompt_ids, new_ids)[1]


def _texts(tokenizer: Any, prompt_ids: list[int], new_ids: list[int]) -> tuple[str, str]:  # noqa: ANN401
    """Return the prompt's text, and what the new tokens add to it."""
    before = _decode(tokenizer, prompt_ids)
    both = _decode(tokenizer, prompt_ids + new_ids)
    return before, both[len(before) :] if both.startswith(before) else _decode(tokenizer, new_ids)


class StopStrings:
    """Finds where a text comes to one of some strings, by its characters and not by its tokens.

    A string may begin in the prompt, for a reader sees one text; a chat's answer is a text by itself.
    """

    def __init__(self, tokenizer: Any, strings: Sequence[str], *, chat: bool = False) -> None:  # noqa: ANN401
        self._tokenizer, self._strings, self._chat = tokenizer, strings, chat
        self._with_text: dict[int, bool] = {}
        # A token with a text has at least a byte. Those before are for decoders that look back.
        self._window = max(len(one.encode()) for one in strings) + _LOOK_BACK

    def find(self, prompt: list[int], new: Sequence[int], start: int = 0) -> int | None:
        """Return the smallest number of `new` tokens, above `start`, whose text has one, or None."""
        for count in range(start + 1, len(new) + 1):
            tail = self._tail(new, count)
            # A short text is read with its prompt; of a long one the end says whether that is worth while.
            if len(tail) < count and self._place("", _decode(self._tokenizer, tail)) is None:
                continue
            if self._place(*_texts(self._tokenizer, prompt, list(new[:count]))) is not None:
                return count
        return None

    def before(self, prompt: list[int], new: list[int]) -> str:
        """Return the part of the new tokens' text before the first of the strings."""
        before, text = _texts(self._tokenizer, prompt, new)
        return text[: self._place(before, text)]

    def _tail(self, new: Sequence[int], count: int) -> list[int]:
        """Return the last tokens of `count`, as many as a stop string may span."""
        with_text, start = 0, count
        while start and with_text < self._window:
            start -= 1
            token = new[start]
            if token not in self._with_text:  # special tokens have none, nor have a vocabulary's spare ones
                self._with_text[token] = bool(_decode(self._tokenizer, [token]))
            with_text += self._with_text[token]
        return list(new[start:count])

    def _place(self, before: str, text: str) -> int | None:
        """Return where a text has the first of the strings; 0 where that began in what is before it."""
        places = []
        for one in self._strings:
            led = "" if self._chat or len(one) == 1 else before[1 - len(one) :]
            if (place := (led + text).find(one)) >= 0:
                places.append(max(0, place - len(led)))
        return min(places, default=None)


_LOOK_BACK = 4


def stops_of(tokenizer: Any, made_by: Recipe) -> StopStrings | None:  # noqa: ANN401
    """Return what finds a recipe's stop strings; None where it has none."""
    return StopStrings(tokenizer, made_by.stop, chat=made_by.chat) if made_by.stop else None


def breaker_ids(tokenizer: Any) -> list[int]:  # noqa: ANN401
    """Return the tokens that stand for a sequence's end, as DRY's public definition finds them.

    Each is the last token of its string after a letter: some tokenizers begin a text with another one.
    """
    return sorted({tokenizer.encode(f"a{one}", add_special_tokens=False)[-1] for one in DRY_BREAKERS})


def make_continuation(
    loaded: LoadedModel, made_by: Recipe, row: EncodedPrompt, new: list[int], *, seconds: float, batch: int
) -> Continuation:
    """Return the continuation that new tokens are, made in `seconds` among `batch` texts at once.

    A text with a stop string ends before it; engines may go on for a while, and are cut here.
    """
    stops = stops_of(loaded.tokenizer, made_by)
    count = stops.find(row.ids, new) if stops else None
    new = new[:count]
    if stops is None or count is None:
        text = continuation_text(loaded.tokenizer, row.ids, new)
    else:
        text = stops.before(row.ids, new)
    ended: Literal["eos", "length"] = "eos" if new[-1] in eos_ids(loaded) else "length"
    return Continuation(
        id=made_by.continuation_id(row.prompt, row.run),
        prompt_id=row.prompt.id,
        dataset=row.prompt.dataset,
        recipe=made_by,
        text=text,
        prompt_tokens=len(row.ids),
        new_tokens=len(new),
        finish=ended if count is None else "stop",
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
        # A model may have more tokens than its tokenizer, and tokenizers in Python may fail on them, where
        # the others leave them out.
        known = set(tokenizer.get_vocab().values())
        text = tokenizer.decode([token for token in ids if token in known], **options)
    return text
