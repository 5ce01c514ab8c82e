"""The tables `[model]`, `[generation]` and `[[system]]` of study.toml: the systems that wrote the texts.

A system is a file of texts, a local model with a strategy, or a model behind a server.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationInfo, model_validator

from guard_eval.errors import StudyError
from guard_eval.generation.strategies import parse, parse_grid, signature
from guard_eval.study.criteria_settings import SettingsTable, refuse_duplicates, to_one_line
from guard_eval.study.served_model import ServedModel, ServerSettings, refuse_reserved_names

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
"""A number of prompts or pairs."""
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
SmallCount = Annotated[int, Field(ge=1, le=1000)]
"""A count from 1 to 1000, such as the raters of a pair or the texts of a prompt."""
Code = Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,64}$")]
Spread = Literal["balanced", "balanced_low_0", "sequential"]
"""The names in transformers for the ways to spread a model over all GPUs."""
Device = Literal["auto", "cpu", "cuda", Spread] | Annotated[str, Field(pattern=r"^cuda:\d{1,3}$")]
StrategyName = Annotated[str, AfterValidator(lambda text: signature(parse(text)))]

StrategyOrGrid = Annotated[str, AfterValidator(lambda text: parse_grid(text).text)]
StrategyNames = Annotated[list[StrategyOrGrid], Field(max_length=1000), AfterValidator(refuse_duplicates)]
StopStrings = Annotated[list[Name], AfterValidator(lambda texts: sorted(set(texts)))]
"""Stop strings, sorted because their order changes no text."""

BUNDLED = "bundled"
"""The name of the small model that comes with the package."""

Source = Literal["file", "strategy", "server"]
"""The kind of source of a system's texts."""

NO_SYSTEM = frozenset({"a", "b", "tie", "human"})
"""Names that no system may have, because they already mean a side, a tie, or the references."""

_OWN_FIELDS = (
    "models?|fallbacks|messages|input|prompt|instructions|system|max(?:completion|output)?tokens|n|bestof|echo"
    "|suffix|stop|seed|temperature|stream.*|store|tools|toolchoice|functions|mcpservers|plugins"
    "|websearchoptions|extra(?:body|headers|query)|apikey|baseurl|timeout|user|metadata"
)
"""Fields of a request that this program sets, or that would change the model or the prompt."""


class Model(SettingsTable):
    """The language model that writes the texts.

    Attributes:
        name: A Hugging Face id, a folder, or `bundled`: a small model, for trying things out.
        revision: A branch, tag or commit of the Hugging Face Hub. A folder has none.
        dtype: The type of the model's numbers. `auto` is float32 on a CPU, and the model's own type on a GPU.
        device: The device of the model: `auto`, `cpu`, `cuda` or `cuda:1`. For several devices, a word of
            transformers such as `balanced`, or a table such as `{model = 0, lm_head = 1}`.
        amateur: The smaller model of contrastive decoding: a Hugging Face id or a folder.
        amateur_revision: The branch, tag or commit of the smaller model.
    """

    name: Name
    revision: str = "main"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: Device | dict[str, int | str] = Field(default="auto", exclude=True)
    amateur: Name | None = None
    amateur_revision: str = "main"

    @property
    def single_device(self) -> str:
        """Return the device for a model that is not spread over several devices, such as the amateur."""
        return "auto" if isinstance(self.device, dict) or self.device in get_args(Spread) else self.device

    @property
    def device_map(self) -> str | dict[str, int | str] | None:
        """Return how to spread the model over several devices, or None for one device."""
        return None if self.device == self.single_device else self.device


class GenerationSettings(SettingsTable):
    """The settings for writing continuations.

    Attributes:
        strategies: The strategies to compare, as signatures. Each is a system, and [model] writes its texts.
            Of a strategy with lists of values, such as `top_p(p=[0.8, 0.9])`, [tuning] chooses one setting.
        runs: The number of texts to each prompt by a strategy that draws at random. Other strategies write
            one.
        stop: Strings that end a text before the first of them.
        max_new_tokens: The largest length of a text, in tokens.
        max_prompt_tokens: The largest length of a prompt, in tokens. A longer prompt keeps its end.
        batch_size: The number of texts that are written together. `auto` fills the memory of a GPU, and is 8
            or 32 on a CPU.
        chat: Send prompts through the model's chat template.
        chat_template: Settings of the chat template, such as `{enable_thinking = false}` of Qwen3.
        compile: Use a static cache, so that transformers compiles the model on a GPU.
    """

    strategies: StrategyNames = []
    runs: SmallCount = 1
    stop: StopStrings = []
    max_new_tokens: Tokens = 256
    max_prompt_tokens: Tokens = 256
    batch_size: Annotated[Count, Field(le=100_000)] | Literal["auto"] = Field(default="auto", exclude=True)
    chat: bool = False
    chat_template: dict[Code, bool | int | float | str] = {}
    compile: bool = Field(default=False, exclude=True)

    @property
    def recipe_fields(self) -> dict[str, Any]:
        """Return the fields of a `Recipe` that these settings decide."""
        return {
            "max_new_tokens": self.max_new_tokens,
            "max_prompt_tokens": self.max_prompt_tokens,
            "chat": self.chat,
            "chat_template": json.dumps(self.chat_template, sort_keys=True) if self.chat_template else "",
            "stop": tuple(self.stop),
        }


def locate_model(name: str, folder: Path) -> str:
    """Return the path of a model's folder (relative names start at `folder`), or a Hugging Face id."""
    if name == BUNDLED:
        return str(Path(__file__).parents[1] / "demo" / "model")
    # Unlike `Path.expanduser`, this function keeps `~name` if there is no such user.
    path = folder / os.path.expanduser(name)  # noqa: PTH111
    if name and (path.is_dir() or name.startswith((".", "/", "~"))):
        return str(path.resolve())
    return name


def _check_system_name(name: str) -> str:
    if name.strip().casefold() in NO_SYSTEM:
        raise ValueError(
            "this word means a side, a tie or the references in tables of verdicts and scores; choose "
            "another name"
        )
    return to_one_line(name)


def _normalise_system_or_strategy(name: str, info: ValidationInfo) -> str:
    """Return the name of a `[[system]]` unchanged, or the signature of a strategy.

    In a study with `[[system]]`, an unknown name is kept here. A later check refuses it and names the nearest
    names.
    """
    systems: list[str] = (info.context or {}).get("systems", [])
    if " ".join(name.split()) in systems:
        return to_one_line(name)
    try:
        return signature(parse(name))
    except StudyError:
        if not systems:
            raise
        return name


SystemName = Annotated[str, Field(max_length=100), AfterValidator(_check_system_name)]
NameOfSystem = Annotated[Name, AfterValidator(_normalise_system_or_strategy)]
"""A name of `[[system]]`, or a strategy of `[generation]`."""


class System(ServerSettings):
    """A compared system: whatever wrote the texts. Each system has its own table.

    Attributes:
        name: The system's name in reports. No rater and no judge ever sees it.
        file: A file in the study's folder with the system's texts, in any form that `measure` reads. In a
            file of several systems, the column of this name counts, or the records that name this system.
        column: The column or key of the texts, if its name is unusual. `reference` takes what people wrote.
        model: The model that writes the texts: a name, or a table with the keys of [model]. For a server, the
            model's name there. Default: [model].
        strategy: The strategy by which the model writes the texts, as a signature.
        chat: Send prompts as a user's message; `false` for the completions of a base model.
        temperature: The temperature that the server samples with. Default: the server's own.
        body: Fields added to the body of each request, such as `{top_n_sigma = 1, min_p = 0}`.
        setting_of: The strategy, if this system is one of its settings. [tuning] chooses one setting, and
            pairs.compare names the strategy.
    """

    name: SystemName
    file: Name | None = Field(default=None, exclude=True)  # pairs hold the compared texts
    column: Name | None = Field(default=None, exclude=True)
    model: Annotated[
        Model | None,
        BeforeValidator(
            lambda value: {"name": value} if isinstance(value, str) else value,
            json_schema_input_type=Model | str | None,
        ),
    ] = None
    strategy: StrategyName | None = None
    chat: bool = True
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    body: Annotated[dict[str, JsonValue], AfterValidator(partial(refuse_reserved_names, _OWN_FIELDS))] = {}
    setting_of: SystemName | None = None

    @property
    def source(self) -> Source:
        """Return the kind of source of the system's texts."""
        if self.file is not None:
            return "file"
        return "server" if self.base_url is not None else "strategy"

    @property
    def served_model(self) -> ServedModel:
        """Return the model of a server, with the settings of the server."""
        reached = {name: getattr(self, name) for name in ServerSettings.model_fields}
        return ServedModel(model=self.model.name if self.model else "", **reached)

    @model_validator(mode="after")
    def _check_text_source(self) -> Self:
        keys = self.model_fields_set - {"name", "setting_of"}
        sources = keys & {"file", "strategy", "base_url"}
        if len(sources) != 1:
            raise ValueError(
                f"{self.name} has {' and '.join(sorted(sources)) or 'no texts'}; give it one of: file, "
                "strategy (with a model, if there is no [model]), or base_url and model"
            )
        allowed = _KEYS_OF[self.source]
        if unused := sorted(keys - allowed):
            raise ValueError(
                f"{self.name} has {unused[0]}, which has no meaning for {_WORDS_FOR[self.source]}; remove it"
            )
        if self.source == "server" and (self.model is None or self.model.model_fields_set != {"name"}):
            raise ValueError(f'{self.name} needs the model\'s name at the server: model = "NAME"')
        return self


_KEYS_OF: dict[Source, set[str]] = {
    "file": {"file", "column"},
    "strategy": {"strategy", "model"},
    "server": {"model", "chat", "temperature", "body", *ServerSettings.model_fields},
}
"""The keys of a `[[system]]` table besides `name`, by the source of the texts."""

_WORDS_FOR: dict[Source, str] = {
    "file": "texts in a file",
    "strategy": "a local model",
    "server": "a model behind a server",
}
