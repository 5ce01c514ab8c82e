"""A prompt's tokens, counted with the model's own tokenizer and chat template where they are at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = dict[str, str]
"""A message of a request: `role` and `content`."""

SECONDS = 60.0
"""After so long without a result the tokens are not counted."""

MEMORY = 4 * 2**30
"""Bytes that counting may take."""

_TOKENIZER, _SETTINGS, _TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
_MARKS = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True)
class TokenCounter:
    """Counts a model's tokens; `place` is its tokenizer's folder or name.

    Tokenizer and template are a stranger's and may loop for ever: a process of its own has them, with limits.
    """

    place: Path

    def count(self, prompts: Iterable[list[Message]]) -> list[int] | None:
        """Return the tokens of each prompt, or None where tokenizer and template do not give them in time."""
        try:
            done = subprocess.run(  # noqa: S603 (this very file)
                [sys.executable, "-P", "-m", __name__, self.place.resolve()],
                input=json.dumps(list(prompts)).encode(),
                env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
                capture_output=True,
                check=True,
                timeout=SECONDS,
            )
            counts: list[int] = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):  # the bound is good enough
            return None
        return counts


def counter(
    model: str, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> TokenCounter | None:
    """Return what counts a model's tokens, or None where its tokenizer is not at hand.

    Args:
        model: A folder, seen from `folder`, or the name of a model on the Hub.
        folder: The study's.
        environ: Where HF_HUB_CACHE and HF_HOME are read; the process's environment by default.
    """
    environ = os.environ if environ is None else environ
    places = [(folder or Path()) / Path(model).expanduser(), *_snapshots(model, environ)]
    place = next((each for each in places if (each / _TOKENIZER).is_file()), None)
    return None if place is None else TokenCounter(place)


def _count(place: Path, prompts: list[list[Message]]) -> list[int]:
    """Return the tokens of each prompt; raises whatever tokenizer, template and messages give cause to."""
    from tokenizers import Tokenizer  # noqa: PLC0415 (no judge needs it but for this)

    tokenizer = Tokenizer.from_file(str(place / _TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    settings = json.loads((place / _SETTINGS).read_text(encoding="utf-8"))
    template = _template(place, settings)
    marks = {name: _mark(settings.get(name)) for name in _MARKS}
    texts = [template.render(messages=each, add_generation_prompt=True, **marks) for each in prompts]
    return [len(each.ids) for each in tokenizer.encode_batch(texts, add_special_tokens=False)]


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
        raise TemplateError("there is no chat template")
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


if __name__ == "__main__":
    with suppress(ImportError, OSError, ValueError):  # not every system can limit it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    print(json.dumps(_count(Path(sys.argv[1]), json.load(sys.stdin))))  # noqa: T201 (for `count`)
