"""A language model and its tokenizer, from a folder or the Hugging Face Hub, as plain transformers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils.hub import cached_file

from guard_eval.engines.threads import settle_threads
from guard_eval.errors import StudyError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
_OLD_WEIGHTS = ("pytorch_model*.bin", "pytorch_model*.bin.index.json")
_SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model ready to generate, and what a `Recipe` and a `Continuation` say of it.

    Attributes:
        model: A transformers model for causal language modelling, in evaluation mode, on its device.
        tokenizer: Its tokenizer.
        name: What the study calls it.
        revision: The Hub's commit, or `sha256:` and 16 digits that stand for the folder's files.
        dtype: The arithmetic, such as `float32`.
        device: Where it lies, such as `cpu` or `NVIDIA H200`.
        versions: Versions of the libraries that run it.
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str
    dtype: str
    device: str
    versions: str


def load(
    location: str,
    *,
    name: str | None = None,
    revision: str = "main",
    dtype: str = "auto",
    device: str = "auto",
) -> LoadedModel:
    """Load a model and its tokenizer.

    Args:
        location: A folder or a Hub id. What starts with `.`, `/` or `~` is a folder.
        name: What the study calls it; `location` if left out.
        revision: A Hub branch, tag or commit; a folder has none.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: float32 on a CPU, else as the model was saved.
        device: Such as `cpu` or `cuda:1`, or `auto`: a GPU if there is one.

    Raises:
        StudyError: There is no such model, it is no causal language model, files of it are missing or broken,
            or there is no such device.
    """
    place = _device(device)
    folder = Path(location).expanduser()
    local = folder.is_dir() or location.startswith((".", "/", "~"))
    if local and not folder.is_dir():
        raise StudyError(
            f"the model {location!r}: there is no such folder; mend model.name, or put the model there"
        )
    source = str(folder) if local else location
    version = {} if local else {"revision": _commit(source, revision)}
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # callers show theirs
    config = _config(source, version)
    tokenizer = _tokenizer(source, version, config)
    model = _model(source, version, _dtype(dtype, place))
    model.to(place).eval()
    settle_threads(model)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=location if name is None else name,
        revision=folder_revision(folder) if local else version["revision"],
        dtype=str(model.dtype).removeprefix("torch."),
        device=torch.cuda.get_device_name(place) if place.type == "cuda" else place.type,
        versions=f"torch {torch.__version__}, transformers {transformers.__version__}",
    )


def folder_revision(folder: Path) -> str:
    """Return `sha256:` and 16 digits that stand for the names and contents of the files a model is made of.

    Weights, configuration and tokenizer count; what else lies in the folder does not.
    """
    weights = _WEIGHTS if any(folder.glob("*.safetensors")) else _OLD_WEIGHTS
    files = {path for pattern in (*weights, *_SETTINGS) for path in folder.glob(pattern) if path.is_file()}
    digest = hashlib.sha256()
    for path in sorted(files):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(name)
    except RuntimeError as error:
        raise StudyError(f"model.device = {name!r} is no device; write auto, cpu, cuda or cuda:0") from error
    if place.type == "cpu":
        return place
    if place.type != "cuda":
        raise StudyError(f"model.device = {name!r} is not supported; write auto, cpu, cuda or cuda:0")
    found = torch.cuda.device_count()
    if (place.index or 0) >= found:
        raise StudyError(
            f"model.device = {name!r}, but PyTorch finds {found} GPUs here; "
            "write cpu or auto, or install PyTorch for your GPU"
        )
    return place


def _dtype(name: str, place: torch.device) -> torch.dtype | str:
    if name == "auto":
        return torch.float32 if place.type == "cpu" else "auto"
    if name not in _DTYPES:
        raise StudyError(f"model.dtype = {name!r} is unknown; choose from: auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _commit(source: str, revision: str) -> str:
    """Return the commit that a branch or tag stands for now: all files then come from it."""
    try:
        path = cached_file(source, "config.json", revision=revision)
    except (OSError, ValueError) as error:
        raise StudyError(_cannot_load(source, {"revision": revision}, error)) from error
    return Path(str(path)).parent.name  # the Hub's cache keeps each commit in a folder of that name


def _config(source: str, version: dict[str, str]) -> Any:  # noqa: ANN401 (transformers' own classes)
    try:
        config = AutoConfig.from_pretrained(source, **version)
    except (OSError, ValueError, KeyError) as error:
        raise StudyError(_cannot_load(source, version, error)) from error
    causal = {name for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() for name in _names(names)}
    declared = config.architectures or []
    if declared and causal.isdisjoint(declared):
        raise StudyError(
            f"the model {source!r} is a {declared[0]}, which does not continue texts; "
            "name a causal language model, such as GPT-2, Llama or Qwen"
        )
    return config


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _tokenizer(source: str, version: dict[str, str], config: Any) -> Any:  # noqa: ANN401
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **version)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(
            f"the model {source!r} has no tokenizer that can be read: {_first_line(error)}"
        ) from error
    size = config.get_text_config().vocab_size
    # Where the files are missing, some classes come up empty rather than fail.
    if not tokenizer("a", add_special_tokens=False)["input_ids"]:
        raise StudyError(f"the model {source!r} has no tokenizer; put its tokenizer.json beside the weights")
    if len(tokenizer) > size:
        raise StudyError(
            f"the model {source!r} knows {size} tokens and its tokenizer {len(tokenizer)}; "
            "put the tokenizer there that the model was trained with"
        )
    return tokenizer


def _model(source: str, version: dict[str, str], dtype: torch.dtype | str) -> Any:  # noqa: ANN401
    options: dict[str, Any] = {**version, "dtype": dtype, "output_loading_info": True}
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(source, **options)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise StudyError(_cannot_load(source, version, error)) from error
    model, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise StudyError(
            f"the model {source!r} lacks {len(missing)} of its weights, {missing[0]} for one; "
            "download it again"
        )
    return model


def _cannot_load(source: str, version: dict[str, str], error: Exception) -> str:
    if not version:
        return (
            f"cannot load the model in {source!r}: {_first_line(error)}; put a whole transformers model there"
        )
    return (
        f"cannot load the model {source!r} (revision {version['revision']}) from the Hugging Face Hub: "
        f"{_first_line(error)}; check the name and the network, or download it and name its folder"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
