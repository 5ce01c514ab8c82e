"""A prompt's tokens, counted with the model's own tokenizer and chat template where they are at hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = dict[str, str]
"""A message of a request: `role` and `content`."""

_TOKENIZER, _SETTINGS, _TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
_MARKS = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True)
class TokenCounter:
    """Counts a model's tokens; `place` is its tokenizer's folder or name."""

    place: Path
    tokenizer: Any
    template: Any
    marks: Mapping[str, str]

    def count(self, prompts: Iterable[list[Message]]) -> list[int] | None:
        """Return the tokens of each prompt, or None where the template cannot take its messages."""
        try:
            texts = [
                self.template.render(messages=messages, add_generation_prompt=True, **self.marks)
                for messages in prompts
            ]
        except (TemplateError, TypeError, ValueError, KeyError):
            return None
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [len(each.ids) for each in encoded]


def counter(
    model: str, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> TokenCounter | None:
    """Return what counts a model's tokens, or None where its tokenizer or chat template is not at hand.

    Args:
        model: A folder, seen from `folder`, or the name of a model on the Hub.
        folder: The study's.
        environ: Where HF_HUB_CACHE and HF_HOME are read; the process's environment by default.
    """
    environ = os.environ if environ is None else environ
    places = [(folder or Path()) / Path(model).expanduser(), *_snapshots(model, environ)]
    place = next((each for each in places if (each / _TOKENIZER).is_file()), None)
    if place is None:
        return None
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 (no judge needs it but for this)

        tokenizer = Tokenizer.from_file(str(place / _TOKENIZER))
        settings = json.loads((place / _SETTINGS).read_text(encoding="utf-8"))
        template = _template(place, settings)
    except Exception:  # noqa: BLE001 (a stranger's files, and a library of Rust: the bound is good enough)
        return None
    if template is None:
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    marks = {name: _mark(settings.get(name)) for name in _MARKS}
    return TokenCounter(place, tokenizer, template, marks)


def _snapshots(model: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the newest revision of a model in the cache of the Hub, if it is stored."""
    home = Path(environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cached = Path(environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{model.replace('/', '--')}"
    try:
        revision = (cached / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return []
    return [cached / "snapshots" / revision]


def _template(place: Path, settings: dict[str, Any]) -> Any:  # noqa: ANN401 (jinja2's template)
    path = place / _TEMPLATE
    text = path.read_text(encoding="utf-8") if path.is_file() else settings.get("chat_template")
    if isinstance(text, list):
        text = next((each["template"] for each in text if each["name"] == "default"), None)
    if not isinstance(text, str):
        return None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **more: json.dumps(value, ensure_ascii=False, **more)
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(text)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _mark(value: object) -> str:
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""
