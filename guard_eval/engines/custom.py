"""Every strategy in anyone's `model.generate(..., custom_generate=…)`, from a folder in the Hub's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from guard_eval.decoding.chains import needs_breakers
from guard_eval.decoding.noise import row_key
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import check, check_vocabulary, decode
from guard_eval.engines.local.texts import StopStrings, breaker_ids
from guard_eval.errors import StudyError
from guard_eval.strategies import ContrastiveDecoding, Strategy, draws, parse, signature

HUB_FOLDER = Path(__file__).parent / "hub"
"""What to give `custom_generate`."""

_NEW_TOKENS = 256
"""How many new tokens at most, where nothing is given."""
_OURS = {"max_new_tokens", "eos_token_id", "pad_token_id"}
"""Arguments that are honoured."""
_IDLE = {
    "use_cache",
    "bos_token_id",
    "decoder_start_token_id",
    "disable_compile",
    "use_model_defaults",
    "transformers_version",
    "_from_model_config",
}
"""Arguments that change no text, whatever they are."""
_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(
        ("do_sample", "early_stopping", "is_assistant", "low_memory", "output_attentions"), False
    ),
    **dict.fromkeys(("output_hidden_states", "output_logits", "output_scores", "token_healing"), False),
    **dict.fromkeys(("remove_invalid_values", "renormalize_logits", "return_dict_in_generate"), False),
    **dict.fromkeys(("synced_gpus", "use_mtp"), False),
    **dict.fromkeys(("top_k", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length"), 0),
    **dict.fromkeys(("min_new_tokens", "min_p", "epsilon_cutoff", "eta_cutoff", "diversity_penalty"), 0),
    **dict.fromkeys(("temperature", "top_p", "typical_p", "guidance_scale", "length_penalty"), 1),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), 1),
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), 1),
    "cache_implementation": "dynamic",
}
"""The value besides None at which another argument asks for nothing; any other is refused by name."""


def generate(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    inputs: Tensor | None = None,
    *,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    strategy: Strategy | str = "guard",
    seed: int = 0,
    num_return_sequences: int | None = None,
    stop_strings: str | list[str] | None = None,
    tokenizer: Any = None,  # noqa: ANN401
    **given: Any,  # noqa: ANN401 (what transformers passes on)
) -> Tensor:
    """Return prompts and continuations, `[B, P + n]`, as `model.generate` does.

    Args:
        model: Any causal language model.
        inputs: The same as `input_ids`.
        input_ids: Prompts `[B, P]`, padded on the left.
        attention_mask: Where they are prompt, `[B, P]`; everywhere if left out.
        strategy: Such as `Guard()`, or a signature, such as `acs(q=1)`.
        seed: Of the strategies that draw; a prompt's draws depend on it and on the prompt's tokens.
        num_return_sequences: How many texts each prompt gets, one below the other. The first of them is the
            one that it gets alone. Only for strategies that draw: others would write the same again.
        stop_strings: A text ends with the token that completes one of them.
        tokenizer: The model's, by which they are found, and DRY's breakers.
        given: `max_new_tokens`, `eos_token_id`, `pad_token_id` or a `generation_config` with them. Of the
            model's own configuration these three count as well, and nothing else.

    Raises:
        StudyError: An argument, or a field of the configuration given, asks for what is not done here, or is
            not valid; a prompt is empty; the model cannot run the strategy, or gives no probabilities.
    """
    ids = input_ids if input_ids is not None else inputs
    if ids is None:
        raise StudyError("there is nothing to continue; pass input_ids")
    _refuse(given)
    if getattr(model, "generation_config", None) is None or model.config.is_encoder_decoder:
        raise StudyError(
            f"the model is a {type(model).__name__}, which does not continue texts; "
            "pass a causal language model, such as GPT-2, Llama or Qwen"
        )
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise StudyError(f"seed = {seed!r} must be a whole number")
    chosen = parse(str(strategy))
    if isinstance(chosen, ContrastiveDecoding):
        raise StudyError(f"{strategy} needs a second model; run it with guard-eval generate")
    check(model, chosen)
    check_vocabulary(model, type(model).__name__, chosen)
    runs = _runs(num_return_sequences, chosen)
    prompts = [prompt for prompt in _prompts(model, ids, attention_mask) for _ in range(runs)]
    limit = _limit(model, given, longest=max(map(len, prompts)))
    ids = ids.repeat_interleave(runs, 0)
    ends = sorted(set(_tokens(model, given, "eos_token_id")))
    pads = _tokens(model, given, "pad_token_id") or ends or [0]
    keys = [
        row_key(seed, " ".join(map(str, prompt)), signature(chosen), 1 + row % runs)
        for row, prompt in enumerate(prompts)
    ]
    batch = Batch(
        prompts=prompts,
        keys=torch.tensor(keys, device=model.device),
        ends=torch.tensor(ends, dtype=torch.long, device=model.device),
        limit=limit,
        breakers=_breakers(chosen, tokenizer, model),
        stops=(stops := _stops(stop_strings, tokenizer)),
    )
    made = decode(model, batch, chosen)
    for row, step in enumerate(made.failed_at):
        if step is not None:
            raise StudyError(
                f"prompt {row // runs + 1} of the batch: no probabilities (NaN or infinite logits) at step "
                f"{step + 1}"
            )
    texts = [
        tokens[: stops.find(prompt, tokens)] if stops else tokens
        for prompt, tokens in zip(prompts, made.tokens, strict=True)
    ]
    longest = max(map(len, texts))
    new = [tokens + pads[:1] * (longest - len(tokens)) for tokens in texts]
    return torch.cat([ids, torch.tensor(new, device=ids.device)], dim=1)


def _stops(strings: str | list[str] | None, tokenizer: Any) -> StopStrings | None:  # noqa: ANN401
    """Return what finds stop strings; None where there are none.

    Raises:
        StudyError: One is empty, or the tokenizer is missing.
    """
    if strings is None or strings == []:
        return None
    wanted = list(strings) if isinstance(strings, list | tuple) else [strings]
    if not all(isinstance(one, str) and one for one in wanted):
        raise StudyError(f"stop_strings = {strings!r} must be texts of a character or more")
    _check_tokenizer(tokenizer, f"stop_strings = {strings!r} are found")
    return StopStrings(tokenizer, wanted)


def _breakers(strategy: Strategy, tokenizer: Any, model: Any) -> Tensor | None:  # noqa: ANN401
    """Return the tokens that end a sequence, for a strategy that asks for them.

    Raises:
        StudyError: The tokenizer is missing.
    """
    if not needs_breakers(strategy):
        return None
    _check_tokenizer(tokenizer, f"{strategy} finds its breakers")
    return torch.tensor(breaker_ids(tokenizer), device=model.device)


def _check_tokenizer(tokenizer: Any, why: str) -> None:  # noqa: ANN401
    if tokenizer is None:
        raise StudyError(f"{why} by the model's tokenizer; pass tokenizer=")
    if not (hasattr(tokenizer, "encode") and hasattr(tokenizer, "get_vocab")):
        raise StudyError(
            f"tokenizer = {tokenizer!r:.60} is of type {type(tokenizer).__name__}; "
            "pass the tokenizer itself, as AutoTokenizer.from_pretrained returns it"
        )


def _runs(wanted: int | None, strategy: Strategy) -> int:
    """Return how many texts each prompt gets.

    Raises:
        StudyError: It is no number, or the strategy writes the same text each time.
    """
    wanted = 1 if wanted is None else wanted
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise StudyError(f"num_return_sequences = {wanted!r} must be a whole number of at least 1")
    if wanted > 1 and not draws(strategy):
        raise StudyError(
            f"num_return_sequences = {wanted}: {strategy} draws nothing and would write the same text again; "
            "leave it out"
        )
    return wanted


def _refuse(given: dict[str, Any]) -> None:
    """Refuse what asks for something that is not done here.

    Raises:
        StudyError: It is named with its value.
    """
    config = given.get("generation_config")
    if not isinstance(config, GenerationConfig | None):
        raise StudyError(f"generation_config = {config!r:.60} must be a GenerationConfig")
    usual = vars(GenerationConfig())  # type: ignore[no-untyped-call]
    fields = {
        f"generation_config.{name}": value
        for name, value in (vars(config) if config else {}).items()
        if name not in usual
        or value != usual[name]
        or isinstance(value, bool) != isinstance(usual[name], bool)
    }
    for named, value in {**given, **fields}.items():
        name = named.removeprefix("generation_config.")
        if name != "generation_config" and not (name in _OURS or _asks_nothing(name, value)):
            shown = f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise StudyError(f"{named} = {shown:.80} has no effect on custom_generate; leave it out")


def _asks_nothing(name: str, value: Any) -> bool:  # noqa: ANN401
    if value is None or name in _IDLE or (isinstance(value, list) and not value):
        return True
    if isinstance(value, Tensor):  # as some tokenizers return them with every text
        return name == "token_type_ids" and not bool(value.any())
    # True == 1, and yet the one asks for something and the other does not.
    neutral = _NEUTRAL.get(name)
    return isinstance(value, bool) == isinstance(neutral, bool) and bool(value == neutral)


def _prompts(model: Any, ids: Tensor, mask: Tensor | None) -> list[list[int]]:  # noqa: ANN401
    """Return the tokens of each prompt without its padding; a `StudyError` where they are not the model's."""
    for name, value in (("input_ids", ids), ("attention_mask", mask)):
        if not isinstance(value, Tensor | None):
            raise StudyError(
                f"{name} is of type {type(value).__name__}; it must be a tensor [prompts, tokens]"
            )
    mask = torch.ones_like(ids) if mask is None else mask
    if ids.dim() != 2 or mask.shape != ids.shape or not len(ids):
        raise StudyError(
            f"input_ids has the shape {tuple(ids.shape)} and attention_mask {tuple(mask.shape)}; both "
            "must be [prompts, tokens]"
        )
    config = model.config.get_text_config()
    tokens = ids[mask.bool()]
    if (
        ids.is_floating_point()
        or ids.dtype == torch.bool
        or bool(((tokens < 0) | (tokens >= config.vocab_size)).any())
    ):
        raise StudyError(
            f"input_ids must be whole numbers from 0 to {config.vocab_size - 1}, the model's tokens"
        )
    prompts = [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]
    for number, prompt in enumerate(prompts, start=1):
        if not prompt:
            raise StudyError(f"prompt {number} of the batch has no token, only padding; remove it")
    return prompts


def _limit(model: Any, given: dict[str, Any], *, longest: int) -> int:  # noqa: ANN401
    """Return how many tokens to make: as asked, or as many as usual and the model's context has room for."""
    asked = _setting(model, given, "max_new_tokens")
    if asked is not None and (isinstance(asked, bool) or not isinstance(asked, int) or asked < 1):
        raise StudyError(f"max_new_tokens = {asked!r} must be a whole number of at least 1")
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    limit = asked or (_NEW_TOKENS if context is None else max(1, min(_NEW_TOKENS, context - longest)))
    if context is not None and longest + limit > context:
        raise StudyError(
            f"a prompt of the batch has {longest} tokens, and with max_new_tokens = {limit} more it exceeds "
            f"the {context} that the model can hold; shorten it, or lower max_new_tokens"
        )
    return limit


def _setting(model: Any, given: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    """Return an argument, or what a configuration given or the model's own says."""
    for source in (given.get(name), getattr(given.get("generation_config"), name, None)):
        if source is not None:
            return source
    return getattr(model.generation_config, name, None)


def _tokens(model: Any, given: dict[str, Any], name: str) -> list[int]:  # noqa: ANN401
    """Return the ids of one token or several; a `StudyError` where they are no whole numbers."""
    value = _setting(model, given, name)
    found = value.tolist() if isinstance(value, Tensor) else value
    ids = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
        raise StudyError(f"{name} = {value!r} must be the id of a token, a whole number, or a list of them")
    return ids
