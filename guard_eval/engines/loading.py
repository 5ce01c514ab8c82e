"""A language model and its tokenizer, from a folder or the Hugging Face Hub, as plain transformers."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import GENERATION_CONFIG_NAME
from transformers.utils.hub import cached_file

from guard_eval.engines.packed import pack
from guard_eval.errors import StudyError
from guard_eval.texts.model_files import folder_revision, has_weights

SMALL = 30_000_000
"""Parameters below which one thread decodes fastest: the work of a step is over before a second thread has
begun, and on a machine with other work the threads wait for each other (measured with 0.26 million parameters
and two busy cores: 33 tokens/s with two threads, 4950 with one)."""
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model ready to generate, and what a `Recipe` and a `Continuation` say of it.

    Attributes:
        model: A transformers model, in evaluation mode, on its device: of `load` one for causal language
            modelling.
        tokenizer: Its tokenizer.
        name: What the study calls it.
        revision: The Hub's commit, or `sha256:` and 16 digits that stand for the folder's files.
        dtype: The arithmetic, such as `float32`.
        device: Where it is, such as `cpu` or `NVIDIA H200`.
        versions: Versions of the libraries that run it.
    """

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    name: str
    revision: str
    dtype: str
    device: str
    versions: str

    def __repr__(self) -> str:
        """Return one line: a notebook shows it after `load_model`."""
        return f"<{self.name} ({self.revision}), {self.dtype} on {self.device}>"


def load(
    location: str,
    *,
    name: str | None = None,
    revision: str = "main",
    dtype: str = "auto",
    device: str = "auto",
    device_map: str | dict[str, int | str] | None = None,
) -> LoadedModel:
    """Load a model and its tokenizer; code that came with a model is never run.

    Args:
        location: A folder or a Hub id. What starts with `.`, `/` or `~` is a folder.
        name: What the study calls it; `location` if left out.
        revision: A Hub branch, tag or commit; a folder has none.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: float32 on a CPU, else as the model was saved. A
            quantised model is left as it is by `auto`.
        device: Such as `cpu` or `cuda:1`, or `auto`: a GPU if there is one.
        device_map: Spread the model over devices instead, as transformers understands it: `auto`, `balanced`,
            or a table from modules to devices.

    Raises:
        StudyError: There is no such model, it is no causal language model, files of it are missing or broken,
            there is no such device, or it does not fit.
    """
    return _load(
        AutoModelForCausalLM, location, device_map, name=name, revision=revision, dtype=dtype, device=device
    )


def load_encoder(
    location: str,
    *,
    name: str | None = None,
    revision: str = "main",
    dtype: str = "auto",
    device: str = "auto",
) -> LoadedModel:
    """Load a model that reads texts, such as RoBERTa, without a head; see `load`.

    Raises:
        StudyError: As `load`, but a model need not continue texts.
    """
    verbosity = transformers.utils.logging.get_verbosity()
    # It reports at length that a head is left over and a pooler is missing; weights that matter are checked.
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        return _load(AutoModel, location, None, name=name, revision=revision, dtype=dtype, device=device)
    finally:
        transformers.utils.logging.set_verbosity(verbosity)


def check_amateur(expert: LoadedModel, amateur: LoadedModel) -> None:
    """Make sure that the smaller model of contrastive decoding has the tokens of the larger one.

    Raises:
        StudyError: It has others.
    """
    mine, other = (
        sorted((number, token) for token, number in one.tokenizer.get_vocab().items())
        for one in (expert, amateur)
    )
    if mine == other:
        return
    if len(mine) != len(other):
        how = f"{len(mine)} and {len(other)} tokens"
    else:
        place = next(n for n, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b)
        how = f"token {place} is {mine[place][1]!r} in one and {other[place][1]!r} in the other"
    raise StudyError(
        f"the model {expert.name!r} and its amateur {amateur.name!r} do not share a vocabulary ({how}); "
        "name a smaller model of the same family as model.amateur"
    )


def _load(
    kind: Any,  # noqa: ANN401 (transformers' own classes)
    location: str,
    device_map: str | dict[str, int | str] | None,
    *,
    name: str | None,
    revision: str,
    dtype: str,
    device: str,
) -> LoadedModel:
    place = _device(device)
    source, folder = _place(location)
    version = {} if folder else {"revision": _commit(source, revision)}
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # callers show theirs
    config = _config(source, version)
    if kind is AutoModelForCausalLM:
        _must_continue_texts(source, config)
    tokenizer = _tokenizer(source, version, config)
    if device_map is None and getattr(config, "quantization_config", None) is not None:
        device_map = {"": str(place)}  # such a model cannot be moved later
    model = _model(kind, source, version, _arithmetic(config, dtype, place.type), device_map)
    if device_map is None:
        _move(model, place, source)
    model.eval()
    settle_threads(model)
    if kind is AutoModelForCausalLM and device_map is None:
        pack(model)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=location if name is None else name,
        revision=folder_revision(folder) if folder else version["revision"],
        dtype=_dtype_name(model.dtype, config),
        device=_device_name(model, place),
        versions=f"torch {torch.__version__}, transformers {transformers.__version__}",
    )


def settle_threads(model: Any) -> None:  # noqa: ANN401 (transformers' classes are untyped)
    """Run a small model on the CPU on one thread, unless OMP_NUM_THREADS says otherwise."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if model.device.type == "cpu" and parameters < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def model_revision(location: str, revision: str = "main") -> str:
    """Return what `LoadedModel.revision` will be, without loading the model.

    Raises:
        StudyError: There is no such folder, or the Hub has no such revision.
    """
    source, folder = _place(location)
    return folder_revision(folder) if folder else _commit(source, revision)


def expected_dtype(location: str, *, revision: str, dtype: str, device: str) -> str | None:
    """Return what `LoadedModel.dtype` will be, without loading the model; None if its settings do not say.

    Args:
        location: A folder or a Hub id.
        revision: The Hub's commit, of which this machine has the files; a folder has none.
        dtype: As `load` takes it.
        device: As `load` takes it; it need not be on this machine.

    Raises:
        StudyError: There is no such model.
    """
    source, folder = _place(location)
    config = _config(source, {} if folder else {"revision": revision})
    arithmetic = _arithmetic(config, dtype, expected_device(device))
    if arithmetic == "auto":
        arithmetic = config.get_text_config().dtype or config.dtype
    return None if arithmetic is None else _dtype_name(arithmetic, config)


def check_device(name: str) -> None:
    """Make sure that there is such a device on this machine.

    Raises:
        StudyError: There is none.
    """
    _device(name)


def check_settings(location: str, *, revision: str, new_tokens: int) -> int | None:
    """Make sure that a model can continue texts by so many tokens, and return how many it holds in all.

    Only its settings are read; None is returned where they do not name a limit.

    Raises:
        StudyError: There is no such model, it has no weights, does not continue texts, or holds fewer tokens.
    """
    source, folder = _place(location)
    if folder and not has_weights(folder):
        raise StudyError(f"the model {location!r} has no weights; put a whole model into this folder")
    config = _config(source, {} if folder else {"revision": revision})
    _must_continue_texts(source, config)
    context: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    if context is not None and new_tokens >= context:
        raise StudyError(
            f"generation.max_new_tokens = {new_tokens}, and the model {location!r} holds {context} tokens, "
            f"those of the prompt included; set max_new_tokens below {context}"
        )
    return context


def expected_device(device: str) -> Literal["cpu", "cuda"]:
    """Return which kind of device is meant; it need not be on this machine."""
    return "cpu" if device == "cpu" or (device == "auto" and not torch.cuda.is_available()) else "cuda"


def _place(location: str) -> tuple[str, Path | None]:
    """Return what transformers is to load, and the folder if it is one."""
    folder = Path(os.path.expanduser(location))  # noqa: PTH111 (see `locate_model`)
    if not (folder.is_dir() or location.startswith((".", "/", "~"))):
        return location, None
    if not folder.is_dir():
        raise StudyError(
            f"the model {location!r}: there is no such folder; correct its name, or put the model into it"
        )
    if (folder / "adapter_config.json").exists():
        raise StudyError(
            f"the model {location!r} holds an adapter (adapter_config.json), and its base is elsewhere; "
            "merge the two (peft's merge_and_unload), save the result, and name its folder"
        )
    return str(folder), folder


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


def _device_name(model: Any, place: torch.device) -> str:  # noqa: ANN401
    """Return what the model is on: one device's name, or those of a map with their number."""
    spread = getattr(model, "hf_device_map", None)
    if not spread:
        return torch.cuda.get_device_name(place) if place.type == "cuda" else place.type
    places = {f"cuda:{device}" if isinstance(device, int) else str(device) for device in spread.values()}
    names = Counter(
        torch.cuda.get_device_name(device) if device.startswith("cuda") else device
        for device in sorted(places)
    )
    return " + ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())


def _dtype_name(dtype: Any, config: Any) -> str:  # noqa: ANN401
    name = str(dtype).removeprefix("torch.")
    quantisation = getattr(config, "quantization_config", None)
    if quantisation is None:
        return name
    settings = quantisation if isinstance(quantisation, dict) else quantisation.to_dict()
    return f"{name}, {settings.get('quant_method', 'quantised')}"


def _move(model: Any, place: torch.device, source: str) -> None:  # noqa: ANN401
    try:
        model.to(place)
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"the model {source!r} does not fit into the memory of {place}; "
            "set model.dtype = bfloat16, or spread it with model.device_map = auto"
        ) from error


def _arithmetic(config: Any, name: str, device: str) -> torch.dtype | str:  # noqa: ANN401
    """Return the arithmetic for a kind of device; `auto` leaves it to transformers."""
    if name == "auto":
        quantised = getattr(config, "quantization_config", None) is not None
        return torch.float32 if device == "cpu" and not quantised else "auto"
    if name not in _DTYPES:
        raise StudyError(f"model.dtype = {name!r} is unknown; choose from: auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _commit(source: str, revision: str) -> str:
    """Return the commit that a branch or tag names now: all files then come from it."""
    try:
        path = cached_file(source, "config.json", revision=revision)
    except (OSError, ValueError) as error:
        raise StudyError(_cannot_load(source, {"revision": revision}, error)) from error
    return Path(str(path)).parent.name  # the Hub's cache keeps each commit in a folder of that name


def _config(source: str, version: dict[str, str]) -> Any:  # noqa: ANN401 (transformers' own classes)
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False, **version)
        if (Path(source) / GENERATION_CONFIG_NAME).is_file():  # transformers would pass over a broken one
            GenerationConfig.from_pretrained(source)
    except Exception as error:  # see `_cannot_load`
        if "trust_remote_code" in str(error):
            raise StudyError(
                f"the model {source!r} comes with code of its own, which is never run; "
                "name a model that transformers itself supports"
            ) from error
        raise StudyError(_cannot_load(source, version, error)) from error
    return config


def _must_continue_texts(source: str, config: Any) -> None:  # noqa: ANN401
    causal = {name for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() for name in _names(names)}
    declared = config.architectures or []
    if declared and causal.isdisjoint(declared):
        raise StudyError(
            f"the model {source!r} is a {declared[0]}, which does not continue texts; "
            "name a causal language model, such as GPT-2, Llama or Qwen"
        )


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _tokenizer(source: str, version: dict[str, str], config: Any) -> Any:  # noqa: ANN401
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **version)
    except Exception as error:  # see `_cannot_load`
        raise StudyError(
            f"the model {source!r} has no tokenizer that can be read: {first_line(error)}; "
            "put its tokenizer.json and tokenizer_config.json beside the weights"
        ) from error
    size = config.get_text_config().vocab_size
    # Where the files are missing, some classes come up empty, or with marks alone, rather than fail.
    words = len(tokenizer) - len(tokenizer.all_special_ids)
    if words <= 0 or not tokenizer("a", add_special_tokens=False)["input_ids"]:
        raise StudyError(f"the model {source!r} has no tokenizer; put its tokenizer.json beside the weights")
    if len(tokenizer) > size:
        raise StudyError(
            f"the model {source!r} has {size} tokens and its tokenizer {len(tokenizer)}; "
            "put the tokenizer beside it that the model was trained with"
        )
    return tokenizer


def _model(  # transformers' classes are untyped
    kind: Any,  # noqa: ANN401
    source: str,
    version: dict[str, str],
    dtype: torch.dtype | str,
    device_map: str | dict[str, int | str] | None,
) -> Any:  # noqa: ANN401
    options: dict[str, Any] = {**version, "dtype": dtype, "output_loading_info": True}
    if device_map is not None:
        options["device_map"] = device_map
    try:
        loaded: Any = kind.from_pretrained(source, trust_remote_code=False, **options)
    except ImportError as error:
        raise StudyError(
            f"the model {source!r} needs a package that is not installed: {first_line(error)}; install it"
        ) from error
    except pickle.UnpicklingError as error:  # PyTorch's message recommends to run what is in it
        raise StudyError(
            f"the model {source!r}: its weights (.bin) are broken, or hold more than weights, which is never "
            "run; put them into the folder as model.safetensors"
        ) from error
    except Exception as error:
        raise StudyError(_cannot_load(source, version, error)) from error
    model, report = loaded
    # Checkpoints of masked language models have no pooler; its output is not used.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise StudyError(
            f"the model {source!r} lacks {len(missing)} of its weights, {missing[0]} for one; "
            "download it again"
        )
    return model


def _cannot_load(source: str, version: dict[str, str], error: Exception) -> str:
    """Return what to say where transformers fails: on broken files its readers raise anything."""
    if not version:
        return f"cannot load the model in {source!r}: {first_line(error)}; put a whole model into it"
    return (
        f"cannot load the model {source!r} (revision {version['revision']}) from the Hugging Face Hub: "
        f"{first_line(error)}; check the name and the network, or download it and name its folder"
    )


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")
