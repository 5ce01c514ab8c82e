"""Make a study's folder: study.toml to edit, its schema for editors, and prompts."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from guard_eval.errors import StudyError, format_count
from guard_eval.files.opening import read_bytes
from guard_eval.lookalike import are_lookalikes
from guard_eval.records import Prompt, clean_for_raters, record
from guard_eval.reporting.escaping import join_lines
from guard_eval.reporting.writing import write_atomically
from guard_eval.results import Result
from guard_eval.study import Study
from guard_eval.study.folder import check_settings, make_model_folder_relative
from guard_eval.study.schema import STUDY_TOML, write_study_toml
from guard_eval.study.settings import MetricSettings
from guard_eval.study.system_settings import BUNDLED, locate_model
from guard_eval.study.toml import parse_toml
from guard_eval.study.tuning import remove_parameters
from guard_eval.texts.models import check_model_name, find_local_revision
from guard_eval.texts.prompts import read_prompt_properties, read_prompts
from guard_eval.texts.systems.cues import describe_unfinished_texts
from guard_eval.texts.systems.imported import ImportedSystem, import_texts

PROMPTS = "prompts.jsonl"
_MOST_COUPLES = 1000

Properties = Mapping[str, Mapping[str, object]]
"""The columns that describe prompts, such as the genre: prompt → column → value."""

_TEMPLATE = Path(__file__).with_name("study.toml.in").read_text(encoding="utf-8")
"""The study.toml of a new study, with placeholders such as `{question}`."""
_EXAMPLES = Path(__file__).with_name("examples.jsonl")

if TYPE_CHECKING:
    Folder: TypeAlias = Path | str
    Source: TypeAlias = Path | Any
    Files: TypeAlias = Path | str | Sequence[Path | str]
else:  # what can be typed on a command line
    Folder = Source = Path
    Files = Sequence[Path]

_GENERATED = """\
[model]
name = {model}   # a Hugging Face id, a folder, or "bundled" (small, for trying things out)
[generation]   # docs/decoding.md has all strategies; steps joined by + are one: "dry + min_p"
strategies = ["greedy", "top_k(k=50)", "top_p(p=0.95)", "contrastive(k=10, alpha=0.6)", "acs(q=1)", "guard"]
max_new_tokens = {tokens}
max_prompt_tokens = {tokens}   # longer prompts keep their end"""
"""The part of study.toml that declares systems whose texts `generate` writes."""

_SCORED = """\
coherence_model = {scorer}   # not the model that writes: it scores its own greedy texts too well
# baseline = "greedy"   # the system that others are compared with; this is the default"""
"""The part of study.toml that sets the metrics of texts that `generate` writes."""

_FROM_FILE = """\
[[system]]
name = {name}   # no rater and no judge sees it
file = {file}   # from {source}{setting_of}"""
"""The part of study.toml that declares a system whose texts already exist."""

_TUNING = """\
# [tuning]   # chooses one of several settings; compare and baseline then name {strategy}
# prompts = 100   # set apart for the choice
# maximize = "diversity\""""
"""The table [tuning] for a study that chooses between settings whose texts are in files."""

_NAMED_TEXTS = """\
texts = "texts"   # what raters and judges call them: continuations, answers, summaries, …
# task = "Answer the question in at most three sentences."   # what the systems were asked to do"""


@record
class NewStudy(Result):
    """A study that was just made.

    Attributes:
        folder: The study's folder.
        prompts: The number of prompts in the study.
        systems: The number of texts of each system that came from files.
    """

    folder: Path
    prompts: int
    systems: dict[str, int] = field(default_factory=dict)


def new(
    folder: Folder,
    /,
    *,
    model: str = BUNDLED,
    prompts: Annotated[Files, Parameter(consume_multiple=True)] = (),
    texts: Annotated[Sequence[Source] | None, Parameter(consume_multiple=True)] = None,
    column: Sequence[str] = (),
    common: bool = False,
) -> NewStudy:
    """Make a study: a folder with prompts, and settings to edit in study.toml.

    Prompts are copied from files. Without files, a few examples show the format. With texts, the study
    compares texts that exist already: each system in the files with every other one.

    Args:
        folder: The folder to create.
        model: The language model: a Hugging Face id, a folder, or 'bundled', a small one for a first try.
        prompts: Files of prompts (JSONL, CSV or .txt), which are copied into the study. Prompts without a
            dataset get the file's name as their dataset.
        texts: Files with the texts of two or more systems and the prompts (JSONL, JSON, CSV, XLSX,
            Parquet). The name of a system comes from its records, its column, or else its file.
        column: With texts: the column of the texts. If several are given, each column is a
            system.
        common: With texts: use only the prompts for which every system has a text.

    Raises:
        StudyError: The folder has a study or prompts already, prompts, texts or the model cannot be read, or
            systems wrote to different prompts.
    """
    folder = Path(folder)
    paths = [Path(file) for file in ([prompts] if isinstance(prompts, str | Path) else prompts)]
    if texts is not None:
        sources = _list_sources(texts)
        imported, systems = import_texts(sources, columns=column, prompts=read_prompts(*paths), common=common)
        names = {system.name for system in systems}
        properties = read_prompt_properties(paths or sources, systems={*names, *column})
        return _make_study_of_texts(folder, imported, properties, systems)
    if column or common:
        option = "--column" if column else "--common"
        raise StudyError(f"{option} needs --texts; add --texts with the files, or leave {option} out")
    location = locate_model(model, Path())
    check_model_name(model, location)
    copied = read_prompts(*(paths or [_EXAMPLES]))
    properties = read_prompt_properties(paths)
    counts = _describe_prompt_counts(folder, copied, properties)
    lines = [counts + ("" if paths else ", examples to replace")]
    if find_local_revision(location, "main") is None:
        lines.append(f"{model} is no folder. A Hugging Face model of this name is not on this machine yet")
    study = write_new_study(
        folder, {PROMPTS: format_prompts(copied, properties)}, _format_study_toml_for_model(folder, model)
    )
    return NewStudy(
        folder=folder,
        prompts=len(copied),
        lines=(f"{folder / STUDY_TOML}: the settings to edit", *lines),
        next=(study.format_command("generate", "--dry-run"),),
    )


def _list_sources(texts: Source | Sequence[Source]) -> list[Source]:
    """Return the files and data frames of `--texts`."""
    items = [texts] if isinstance(texts, str | Path) or hasattr(texts, "itertuples") else texts
    sources = [Path(item) if isinstance(item, str) else item for item in items]
    if not sources:
        raise StudyError("--texts has no file; name the files with the texts of two systems or more")
    return sources


def _describe_prompt_counts(folder: Path, prompts: Sequence[Prompt], properties: Properties) -> str:
    """Return a line such as "study/prompts.jsonl: 20 prompts (10 news, 10 tales), with genre"."""
    counts = Counter(prompt.dataset for prompt in prompts)
    parts = f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if len(counts) > 1 else ""
    columns = ", ".join(dict.fromkeys(name for row in properties.values() for name in row))
    more = f", with {columns}" if columns else ""
    return f"{folder / PROMPTS}: {format_count(len(prompts), 'prompt')}{parts}{more}"


def _make_study_of_texts(
    folder: Path, prompts: Sequence[Prompt], properties: Properties, systems: Sequence[ImportedSystem]
) -> NewStudy:
    """Make a study with texts that already exist."""
    couples = [[a.name, b.name] for a, b in combinations(systems, 2)]
    if len(couples) > _MOST_COUPLES:
        raise StudyError(
            f"{len(systems)} systems would make {len(couples)} comparisons, and at most {_MOST_COUPLES} are "
            "possible; name the files of fewer systems"
        )
    for first, second in couples:
        if are_lookalikes(first, second):
            raise StudyError(
                f"the systems {first!a} and {second!a} look alike; write one name, or rename one"
            )
    if len({system.file.casefold() for system in systems}) < len(systems):
        names = ", ".join(system.name for system in systems)
        raise StudyError(f"some disks cannot tell two of these names apart: {names}; rename one")
    content = _format_study_toml_for_texts(folder, systems, couples)
    try:
        check_settings(parse_toml(content, folder / STUDY_TOML), folder)
    except StudyError as error:
        sources = ", ".join(dict.fromkeys(system.source for system in systems))
        raise StudyError(f"{error}\nNothing was written. Systems get their names from {sources}") from error
    files = {system.file: system.lines() for system in systems}
    study = write_new_study(folder, files | {PROMPTS: format_prompts(prompts, properties)}, content)
    compared = f"{format_count(len(couples), 'comparison')} of {len(systems)} systems"
    endings = describe_unfinished_texts(
        {system.name: [text.text for text in system.texts] for system in systems}
    )
    return NewStudy(
        folder=folder,
        prompts=len(prompts),
        systems={system.name: len(system.texts) for system in systems},
        lines=(
            f"{folder / STUDY_TOML}: the settings to edit: {compared}",
            _describe_prompt_counts(folder, prompts, properties),
            *(system.line for system in systems),
            "to show raters and judges what the texts should do, set task in study.toml",
            *filter(None, [endings]),
        ),
        next=(study.format_command("measure"), study.format_command("pair")),
    )


def write_new_study(folder: Path, files: Mapping[str, bytes], settings: str) -> Study:
    """Write a new study's files. study.toml is written last and so marks a complete folder.

    Args:
        folder: The study's folder.
        files: The contents of the files beside study.toml, by name.
        settings: The content of study.toml.

    Raises:
        StudyError: The folder has a study already, or has one of the files with different content.
    """
    _refuse_existing_file(folder / STUDY_TOML)
    for name, content in files.items():
        path = folder / name
        # An interrupted command may have left the same files without study.toml.
        has_size = path.is_file() and path.stat().st_size == len(content)
        if not has_size or read_bytes(path, limit=len(content)) != content:
            _refuse_existing_file(path)
    for name, content in files.items():
        write_atomically(folder / name, content, make_folder=True)
    write_study_toml(folder, settings.encode())
    return Study.open(folder)


def _refuse_existing_file(path: Path) -> None:
    if path.exists():
        raise StudyError(f"{path} exists already and would be overwritten; move it, or name another folder")


def format_prompts(prompts: Iterable[Prompt], properties: Properties = MappingProxyType({})) -> bytes:
    """Return prompts as the lines of a prompts.jsonl, with the columns of `read_prompt_properties`."""
    lines = []
    for prompt in prompts:
        row: dict[str, object] = {"id": prompt.id, "dataset": prompt.dataset, "prompt": prompt.text}
        if prompt.reference is not None:
            row["reference"] = prompt.reference
        row |= properties.get(clean_for_raters(prompt.text), {})
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "replace")


def _format_study_toml_for_model(folder: Path, model: str) -> str:
    """Return the content of study.toml for a study whose texts a model will write."""
    small = model == BUNDLED  # for a first try, perhaps without a network
    compute = ["diversity", "coherence", "perplexity", "repetition", "length", "speed"]
    name = _format_toml_text(make_model_folder_relative(folder, model))
    return _format_study_toml(
        folder,
        question='question = "Which decoding strategy writes better continuations?"',
        systems=_GENERATED.format(model=name, tokens=128 if small else 256),
        compute=compute if small else [*compute, "mauve", "bertscore"],
        metrics=_SCORED.format(
            scorer=_format_toml_text(BUNDLED if small else MetricSettings().coherence_model)
        ),
        compare=[["guard", "acs(q=1)"]],
    )


def _format_study_toml_for_texts(
    folder: Path, systems: Sequence[ImportedSystem], couples: Sequence[Sequence[str]]
) -> str:
    """Return the content of study.toml for a study whose texts are in files."""
    counts = Counter(remove_parameters(system.name) for system in systems)
    with_settings = [strategy for strategy, count in counts.items() if count > 1]
    tables = []
    for system in systems:
        strategy = remove_parameters(system.name)
        table = _FROM_FILE.format(
            name=_format_toml_text(system.name),
            file=_format_toml_text(system.file),
            source=join_lines(Path(system.source).name),
            setting_of=f"\nsetting_of = {_format_toml_text(strategy)}" if strategy in with_settings else "",
        )
        tables.append(table)
    tables += [_TUNING.format(strategy=_format_toml_text(strategy)) for strategy in with_settings[:1]]
    return _format_study_toml(
        folder,
        question=_NAMED_TEXTS,
        systems="\n".join(tables),
        compute=["diversity", "repetition", "length"],
        metrics=f"baseline = {_format_toml_text(systems[0].name)}   # others are compared with it",
        compare=couples,
    )


def _format_study_toml(
    folder: Path, *, compute: Sequence[str], compare: Sequence[Sequence[str]], **parts: str
) -> str:
    """Return the content of study.toml: the template with its placeholders filled in.

    `parts` are the question, the systems and the settings of metrics, as TOML.
    """
    name = "".join(sign if sign.isprintable() else " " for sign in folder.resolve().name)
    return _TEMPLATE.format(
        name=_format_toml_text(name.strip() or "study"),
        compute=json.dumps(compute),
        compare=_format_couples_as_toml(compare),
        **parts,
    )


def _format_couples_as_toml(couples: Sequence[Sequence[str]]) -> str:
    """Return couples of systems' names as a TOML list: one line for each couple if there are several."""
    rows = [f"[{', '.join(map(_format_toml_text, couple))}]" for couple in couples]
    return f"[{rows[0]}]" if len(rows) == 1 else "[\n" + "".join(f"  {row},\n" for row in rows) + "]"


def _format_toml_text(text: str) -> str:
    r"""Return a text as a quoted TOML string, in which special characters are escaped.

    >>> print(_format_toml_text('étude😀 "a"\x7f'))
    "étude😀 \"a\"\u007f"
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
