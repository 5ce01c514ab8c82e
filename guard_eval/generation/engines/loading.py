"""Load a language model and its tokenizer with transformers, from a folder or the Hugging Face Hub."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils import GENERATION_CONFIG_NAME
from transformers.utils.hub import cached_file

from guard_eval import progress
from guard_eval.errors import StudyError, format_count, get_first_line
from guard_eval.generation.engines import Model, Tokenizer
from guard_eval.generation.engines.packed import pack_linear_layers
from guard_eval.generation.strategies import Strategy, signature
from guard_eval.generation.strategies.own import hash_own_strategy_source
from guard_eval.records import Recipe, record
from guard_eval.study.system_settings import GenerationSettings
from guard_eval.texts.models import has_weights, hash_model_folder

SMALL = 30_000_000
"""The number of parameters below which a model decodes fastest with one thread. In a small model, a step ends
before a second thread has started, and on a busy machine threads wait for each other (measured with 0.26
million parameters and two busy cores: 33 tokens/s with two threads, 4950 with one)."""
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DeviceMap = str | dict[str, int | str] | None
ModelKind = Literal["AutoModelForCausalLM", "AutoModel"]
"""The transformers class that loads a model: with the head that predicts tokens, or without a head."""


@record
class LoadedModel:
    """A model that is ready to generate, with the facts that `Recipe` and `Continuation` record.

    Attributes:
        model: A transformers model in evaluation mode, on its device.
        tokenizer: The model's tokenizer.
        name: The model's name in the study.
        revision: The commit of the Hub, or `sha256:` and 16 digits: a hash of the folder's files.
        dtype: The number format, such as `float32`.
        device: The name of the device, such as `cpu` or `NVIDIA H200`.
        versions: The versions of the libraries that run the model.
    """

    model: Model = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    name: str
    revision: str
    dtype: str
    device: str
    versions: str

    def __repr__(self) -> str:
        """Describe the model in one line, such as `<gpt2 (607a30d), float32 on cpu>`."""
        return f"<{self.name} ({self.revision}), {self.dtype} on {self.device}>"

    @property
    def revision_and_dtype(self) -> dict[str, str | None]:
        """The model's commit or hash and number format, by which texts of other runs are recognised."""
        return {"revision": self.revision, "dtype": self.dtype}

    def make_recipe(
        self,
        strategy: Strategy,
        settings: GenerationSettings,
        seed: int,
        *,
        amateur: LoadedModel | None = None,
        engine: str | None = None,
    ) -> Recipe:
        """Return the recipe of this model's texts. `amateur` is contrastive decoding's second model."""
        return Recipe(
            model=self.name,
            revision=self.revision,
            strategy=signature(strategy),
            seed=seed,
            dtype=self.dtype,
            amateur=amateur.name if amateur else None,
            amateur_revision=amateur.revision if amateur else None,
            engine=engine,
            source=hash_own_strategy_source(strategy),
            **settings.recipe_fields,
        )


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model that is not loaded yet.

    Attributes:
        source: The folder or the Hub id that transformers loads.
        version: The Hub's commit as an argument of transformers. It is empty for a folder.
        config: The model's settings.
    """

    source: str
    version: dict[str, str]
    config: Any = field(repr=False)

    @classmethod
    def open(cls, location: str, revision: str) -> ModelFiles:
        """Find a model's files, and read the model's settings.

        Args:
            location: A folder or a Hub id; see `load_pretrained`.
            revision: A branch, tag or commit of the Hub.

        Raises:
            StudyError: The model does not exist or is an adapter, or the settings cannot be read.
        """
        source, version = _locate_model_files(location, revision)
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False, **version)
            if (Path(source) / GENERATION_CONFIG_NAME).is_file():  # transformers would ignore a broken file
                GenerationConfig.from_pretrained(source)
        except Exception as error:
            raise _make_load_error(source, version, error) from error
        for key in ("_attn_implementation", "_experts_implementation"):  # a part of a model has the whole's
            code = str(getattr(config, key, None))
            if "/" in code:
                raise StudyError(
                    f"the model {source!r} names code on the Hub, {code}, which is never run; remove {key} "
                    "from its config.json"
                )
        return cls(source, version, config)

    @property
    def revision(self) -> str:
        """The commit of the Hub, or the hash of the folder's files."""
        return self.version["revision"] if self.version else hash_model_folder(Path(self.source))

    @property
    def quantisation(self) -> str | None:
        """The quantisation method of the weights, or None if they are not quantised."""
        settings = self._quantisation_settings
        return str(settings.get("quant_method", "quantised")) if settings else None

    @property
    def _quantisation_settings(self) -> dict[str, object]:
        return getattr(self.config, "quantization_config", None) or {}

    def choose_dtype(self, dtype_name: str, device: str) -> torch.dtype | str:
        """Return the number format `dtype_name` for PyTorch. The result `auto` lets transformers choose."""
        if dtype_name == "auto":
            return torch.float32 if device == "cpu" and self.quantisation is None else "auto"
        if dtype_name not in _DTYPES:
            raise StudyError(
                f"model.dtype = {dtype_name!r} is unknown; choose from: auto, {', '.join(_DTYPES)}"
            )
        return _DTYPES[dtype_name]

    def predict_dtype(self, dtype_name: str, device: str) -> str | None:
        """Return the number format that the model will have on a device, or None if this is not known yet."""
        dtype = self.choose_dtype(dtype_name, predict_device_kind(device))
        if dtype == "auto":
            dtype = self.config.get_text_config().dtype or self.config.dtype
        return None if dtype is None else self.format_dtype_name(dtype)

    def format_dtype_name(self, dtype: torch.dtype | str) -> str:
        """Return the name of a number format, followed by the model's quantisation: `float16, gptq`."""
        return ", ".join(filter(None, (str(dtype).removeprefix("torch."), self.quantisation)))

    def refuse_noncausal_model(self) -> None:
        """Raise a `StudyError` if the model is not a causal language model."""
        names = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        causal = {name for entry in names for name in ([entry] if isinstance(entry, str) else entry)}
        kind = self.config.model_type
        if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:  # transformers loads the language model in it
            causal.add(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind, ""))
        declared = self.config.architectures or []
        if declared and causal.isdisjoint(declared):
            raise StudyError(
                f"the model {self.source!r} is a {declared[0]}, which does not continue texts; "
                "name a causal language model, such as GPT-2, Llama or Qwen"
            )

    def check_quantisation(self) -> None:
        """Raise a `StudyError` if transformers does not know the quantisation method.

        Transformers would read the quantised weights as plain numbers.
        """
        settings = self._quantisation_settings
        with suppress(ValueError):  # the settings name no method
            if not settings or AutoHfQuantizer.supports_quant_method(settings):  # type: ignore[no-untyped-call]
                return
        raise StudyError(
            f"the model {self.source!r} is quantised by {self.quantisation!r}, which transformers "
            f"{transformers.__version__} does not know; name the model in another format"
        )

    def read_tokenizer(self) -> Tokenizer:
        """Load the model's tokenizer.

        Raises:
            StudyError: The tokenizer is missing or broken.
        """
        try:
            tokenizer = AutoTokenizer.from_pretrained(self.source, trust_remote_code=False, **self.version)
            ordinary = tokenizer.get_vocab().keys() - {*tokenizer.all_special_tokens}
            tokenizer("a")
        except Exception as error:  # broken files raise any kind of exception in transformers
            raise _make_load_error(self.source, self.version, error, component="tokenizer") from error
        if len(ordinary) < 2:
            raise _make_load_error(
                self.source, self.version, ValueError("its vocabulary is empty"), component="tokenizer"
            )
        return tokenizer

    def load_all_but_weights(
        self, name: str, *, dtype: str = "", device: str = "", versions: str = ""
    ) -> LoadedModel:
        """Return the model without its weights, with the same settings as from `load_pretrained`.

        Raises:
            StudyError: The folder has no weights or no tokenizer, or the model does not continue texts.
        """
        if not self.version and not has_weights(Path(self.source)):
            raise StudyError(
                f"the model folder {self.source!r} has no weights; put all files of a model into this folder"
            )
        self.refuse_noncausal_model()
        try:
            ends: object = GenerationConfig.from_pretrained(self.source, **self.version)  # type: ignore[arg-type]
        except OSError:
            ends = None
        return LoadedModel(
            model=SimpleNamespace(config=self.config, generation_config=ends),
            tokenizer=self.read_tokenizer(),
            name=name,
            revision=self.revision,
            dtype=dtype,
            device=device,
            versions=versions,
        )


def load_pretrained(
    location: str,
    *,
    name: str | None = None,
    revision: str = "main",
    dtype: str = "auto",
    device: str = "auto",
    device_map: DeviceMap = None,
    kind: ModelKind = "AutoModelForCausalLM",
) -> LoadedModel:
    """Load a model and its tokenizer. Python code that comes with a model is never run.

    Args:
        location: A folder or a Hub id. A name that starts with `.`, `/` or `~` is a folder.
        name: The model's name in the study. Default: `location`.
        revision: A branch, tag or commit of the Hub. A folder has no revision.
        dtype: `float32`, `bfloat16`, `float16` or `auto`. `auto` is float32 on a CPU, and on other devices
            the number format of the saved weights. `auto` does not change a quantised model.
        device: A device such as `cpu` or `cuda:1`, or `auto`: a GPU if there is one.
        device_map: How to spread the model over devices: `balanced`, or the device of each module, as in
            transformers.
        kind: The transformers class that loads the model. `AutoModel` is for encoders, such as RoBERTa.

    Raises:
        StudyError: The model does not exist, does not continue texts or does not fit into memory, files are
            missing or broken, or the device does not exist.
    """
    target = find_device(device)
    files = ModelFiles.open(location, revision)
    is_causal = kind == "AutoModelForCausalLM"
    if is_causal:
        files.refuse_noncausal_model()
    files.check_quantisation()
    tokenizer = files.read_tokenizer()
    if device_map is None and files.quantisation is not None:
        device_map = {"": str(target)}  # a quantised model cannot be moved later
    model = _read_weights(kind, files, files.choose_dtype(dtype, target.type), device_map)
    try:
        model = model.eval() if device_map else model.eval().to(target)
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"the model {files.source!r} does not fit into the memory of {target}; "
            "set model.dtype = bfloat16, or spread it with model.device = balanced"
        ) from error
    is_small = model.num_parameters() < SMALL
    if is_small and model.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    if is_causal and device_map is None:
        pack_linear_layers(model)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=location if name is None else name,
        revision=files.revision,
        dtype=files.format_dtype_name(model.dtype),
        device=_format_device_names(model, target),
        versions=f"torch {torch.__version__}, transformers {transformers.__version__}",
    )


def check_shared_vocabulary(expert: LoadedModel, amateur: LoadedModel) -> None:
    """Raise a `StudyError` if expert and amateur of contrastive decoding have different vocabularies."""
    first, second = (model.tokenizer.get_vocab() for model in (expert, amateur))
    if first != second:
        token, number = min(first.items() ^ second.items(), key=lambda item: (item[1], item[0]))
        raise StudyError(
            f"the model {expert.name!r} and its amateur {amateur.name!r} do not share a vocabulary: "
            f"only one of them has {token!r} as token {number}; "
            "name a smaller model of the same family as model.amateur"
        )


def predict_device_kind(device: str) -> Literal["cpu", "cuda"]:
    """Return the kind of device that a setting names, even if this machine has no such device."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cpu" if device == "cpu" else "cuda"


def find_device(name: str) -> torch.device:
    """Return the device that a setting names. Raise a `StudyError` if this machine has no such device."""
    count = torch.cuda.device_count()
    names = ["auto", "cpu", *(["cuda"] if count else []), *(f"cuda:{index}" for index in range(count))]
    if name not in names:
        raise StudyError(
            f"the device is {name!r}, but PyTorch finds {count} GPUs here; write one of: {', '.join(names)}"
        )
    return torch.device(predict_device_kind(name) if name == "auto" else name)


def _locate_model_files(location: str, revision: str) -> tuple[str, dict[str, str]]:
    """Return the folder or Hub id for transformers, and the current commit of a branch or tag."""
    folder = Path(os.path.expanduser(location))  # noqa: PTH111 (see `locate_model`)
    if not (folder.is_dir() or location.startswith((".", "/", "~"))):
        version = {"revision": revision}
        try:
            path = cached_file(location, "config.json", **version)
        except (OSError, ValueError) as error:
            raise _make_load_error(location, version, error) from error
        return location, {"revision": Path(str(path)).parent.name}  # the cache has a folder for each commit
    if not folder.is_dir():
        raise StudyError(f"the model folder {location!r} does not exist; correct the name")
    if (folder / "adapter_config.json").exists():
        raise StudyError(
            f"the model folder {location!r} contains only an adapter; merge it with its base model (peft's "
            "merge_and_unload), and save the merged model"
        )
    return str(folder), {}


def _format_device_names(model: Model, device: torch.device) -> str:
    """Return the names of the model's devices, such as `cpu` or `2 × NVIDIA H200`."""
    device_map = getattr(model, "hf_device_map", None) or {"": str(device)}
    devices = {f"cuda:{key}" if isinstance(key, int) else str(key) for key in device_map.values()}
    names = [torch.cuda.get_device_name(key) if key.startswith("cuda") else key for key in devices]
    return " + ".join(f"{names.count(name)} × {name}".removeprefix("1 × ") for name in sorted(set(names)))


def _read_weights(
    kind: ModelKind,
    files: ModelFiles,
    dtype: torch.dtype | str,
    device_map: DeviceMap,
) -> Model:
    logging = transformers.utils.logging
    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # callers show a bar
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # missing weights are refused below
    try:
        model, report = getattr(transformers, kind).from_pretrained(
            files.source,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below
            dtype=dtype,
            device_map=device_map,
            **files.version,
        )
    except Exception as error:
        raise _make_load_error(files.source, files.version, error) from error
    finally:
        logging.set_verbosity(verbosity)
    # Checkpoints of masked language models have no pooler, and the pooler's output is not used.
    weights = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    missing = {key for key in weights if not key.startswith("pooler.")}
    if missing:
        raise StudyError(
            f"the model {files.source!r} lacks {len(missing)} of its weights, or they have other shapes than "
            f"in its config.json, such as {min(missing)}; download it again"
        )
    # Old checkpoints also have masks, such as `masked_bias`, which every model makes itself.
    unused = [key for key in report["unexpected_keys"] if key.endswith(".weight")]
    if unused and kind == "AutoModelForCausalLM":
        progress.show_notice(
            f"transformers does not use {format_count(len(unused), 'weight')} of the model {files.source!r}, "
            f"such as {min(unused)}; if its texts are poor, its config.json is wrong or it needs its own code"
        )
    return model


def _make_load_error(
    source: str, version: dict[str, str], error: Exception, *, component: str = "model"
) -> StudyError:
    """Return a `StudyError` that explains why transformers could not read a component of a model."""
    reason = get_first_line(error)
    if isinstance(error, pickle.UnpicklingError):  # PyTorch's message advises to run the file's code
        reason = "its weights (.bin) are broken, or contain code, which is never run"
    where = f"in {source!r}"
    remedy = "put all files of a model into this folder"
    if version:
        where = f"{source!r} (revision {version['revision']}) from the Hugging Face Hub"
        remedy = "check the name and the network, or download the model and name its folder"
    if "trust_remote_code" in str(error):
        reason = "it comes with its own code, which is never run"
        remedy = "name a model that transformers can run without this code"
    return StudyError(f"cannot load the {component} {where}: {reason}; {remedy}")
