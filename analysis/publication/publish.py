"""Publish a study: the verdicts without the raters' identities, the pairs, a dataset card and the report."""

import json
import os
import re
import secrets
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

import pandas as pd
import tomli_w

from analysis.evidence import Context, Evidence, StudyFacts
from analysis.reports.command import report
from analysis.reports.declared import FILE_NAME, TableSettings
from analysis.reports.study_record import encode_study_record, list_added_split_columns, make_table_settings
from analysis.reports.study_report import (
    hash_plan_parts,
    make_verdict_table,
    read_counted_verdicts,
    read_table_and_context,
    record_seen_results,
)
from analysis.sections.raters.excluded import describe_shares_with_excluded_raters
from guard_eval.errors import StudyError, format_count
from guard_eval.files.opening import read_text
from guard_eval.files.rows import MOST_BYTES
from guard_eval.lookalike import find_names_in_text, hide_names_in_text, split_into_simple_words
from guard_eval.records import SIMULATED, Pair, record
from guard_eval.reporting.data import make_csv_from_frame, to_json_value
from guard_eval.reporting.escaping import join_lines
from guard_eval.reporting.rendering import render
from guard_eval.reporting.words import use_criterion_titles
from guard_eval.reporting.writing import write_atomically
from guard_eval.results import Result
from guard_eval.rubric import select_criteria
from guard_eval.store import RaterProgress, Store, TidyRow
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study import Study
from guard_eval.study.schema import encode_schema, make_schema_comment, make_schema_file_name
from guard_eval.study.system_settings import System

# fmt: off
VERDICT_COLUMNS = [
    "pair_id", "dataset", "prompt_id", "method_a", "method_b", "rater", "criterion", "verdict", "rater_kind",
    "presentation", "shown_first", "position", "length_a", "length_b",
    "prompt_round",
]
# fmt: on
"""The columns of the published verdicts. The template of README.md has their meanings."""

_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-(?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|-----BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@\"']*:[^\s/@\"']+@"
    r"|[?&](?:invite|cc|PROLIFIC_PID|SESSION_ID|STUDY_ID)=[\w%-]+"
)
"""A pattern for secrets: API keys, passwords in addresses, and raters' personal links."""
RECORD = "verdicts.study.json"
"""The record of the study, which a report finds beside verdicts.csv."""
_TYPED = ("name", "question", "texts", "task", "license", "criteria", "authors")
"""The settings that are published as they were typed."""
_SECRET_VARIABLES = ("PGPASSWORD", "HF_TOKEN", "OPENAI_API_KEY")


@record
class PublishedStudy(Result):
    """A published study.

    Attributes:
        folder: The folder of the data set.
        verdicts: The number of verdicts in the data set.
    """

    folder: Path
    verdicts: int


def publish(study: Study, folder: Path, /, *, allow: Sequence[str] = ()) -> PublishedStudy:
    """Make a data set of the study, without its raters' identities.

    Raters become numbers, and times, durations and comments are left out. All words that were typed for the
    study are searched for raters' names and for keys.

    Args:
        study: The study's folder.
        folder: The folder to create. It must be empty or not exist yet.
        allow: A rater's name that may stay in the data, for example because it is also an ordinary word.

    Raises:
        StudyError: There are no verdicts, the folder is not empty, or a setting would identify a person.
    """
    folder = Path(folder)
    target = folder.resolve()
    if target == Path.cwd():
        raise StudyError(
            "publish cannot write into the current folder, because it replaces the whole folder. Name "
            "another folder"
        )
    if folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise StudyError(f"{folder} exists and is not an empty folder; name a folder that does not exist yet")
    with Store.open_study(study) as store:
        rows = read_counted_verdicts(study, store)
        people = store_raters.read_rater_progress(store)
        pairs = store_pairs.read_pairs(store)
        table, context = read_table_and_context(study, store)
        record_seen_results(store)
    pseudonyms = _choose_pseudonyms(rows, {rater.name.casefold() for rater in people})
    verdicts = _pseudonymise_verdicts(rows, pairs, pseudonyms)
    settings = make_table_settings(study, context, table)
    facts = _remove_identities(Evidence.from_verdicts(table, context), people, pseudonyms)
    added = list_added_split_columns(table, context.by)
    columns = {name: verdicts["pair_id"].map(values) for name, values in added.items()}
    csv = make_csv_from_frame(verdicts[VERDICT_COLUMNS].assign(**columns))
    judged = set(verdicts["pair_id"])
    texts = [asdict(pair) for pair in pairs if pair.id in judged]
    for text in texts:
        del text["position"], text["for_people"], text["round"]
    files = {
        "verdicts.csv": csv.decode(),
        RECORD: encode_study_record(facts, settings, csv).decode(),
        "pairs.jsonl": "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts),
        FILE_NAME: make_schema_comment(FILE_NAME) + tomli_w.dumps(settings | {"record": RECORD}),
        make_schema_file_name(FILE_NAME): encode_schema(TableSettings, FILE_NAME).decode(),
    }
    _check_for_names_and_keys(study, people, allow, _list_texts_typed_by_people(facts, pairs), files)
    excluded = sum(rater.state == "excluded" and rater.kind == "person" for rater in people)
    counts = {"verdicts.csv": len(verdicts), "pairs.jsonl": len(texts)}
    # The folder gets its final name when it is complete, so an interrupted command leaves no such folder.
    making = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        for name, content in files.items():
            write_atomically(making / name, content.encode("utf-8", "replace"), make_folder=True)
        report(making / "verdicts.csv", output=making / "report")
        card = _make_dataset_card(
            making, study, verdicts, rows=counts, hashes=hash_plan_parts(study, pairs), excluded=excluded
        )
        write_atomically(making / "README.md", card.encode())
        making.replace(target)
    except OSError as error:  # another process has just written the folder
        raise StudyError(f"cannot write {folder}: {error.strerror}; name another folder") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return PublishedStudy(
        folder=folder,
        verdicts=len(verdicts),
        lines=(
            f"{folder}: {format_count(len(verdicts), 'verdict')} on {format_count(len(texts), 'pair')}",
            f"Read {folder / 'README.md'}, then upload the folder.",
        ),
    )


def _remove_identities(
    evidence: Evidence, people: Sequence[RaterProgress], pseudonyms: Mapping[str, str]
) -> Context:
    """Return the study's context without people's names, times, private settings, costs and server messages.

    The verdicts of excluded raters are not published, so the context has the results with them as phrases.
    """
    context = evidence.context
    names = _list_identifying_names(people)
    ordered = sorted(
        context.exclusions, key=lambda excluded: (excluded.results, excluded.reason, excluded.verdicts)
    )
    judging = context.judging
    with use_criterion_titles(context.titles):
        shares = describe_shares_with_excluded_raters(evidence)
    return replace(
        context,
        exclusions=tuple(
            replace(
                excluded, rater=f"excluded-{number}", at="", reason=hide_names_in_text(excluded.reason, names)
            )
            for number, excluded in enumerate(ordered, start=1)
        ),
        shares_with_excluded=shares,
        parts=tuple(
            replace(declared, changes=tuple(map(_remove_values_from_setting_change, declared.changes)))
            for declared in context.parts
        ),
        conduct={pseudonyms[name]: counts for name, counts in context.conduct.items() if name in pseudonyms},
        judging=replace(judging, spent=(), failed=tuple(replace(row, reason="") for row in judging.failed)),
    )


_PUBLIC_CHANGE = re.compile(
    r"(?:analysis|pairs)\..*|.* from (?:[\d.]+|true|false|null) to (?:[\d.]+|true|false|null)"
)


def _remove_values_from_setting_change(setting_change: str) -> str:
    """Return a change of a setting. Texts are removed, except those of the plan of pairs and tests."""
    return (
        setting_change if _PUBLIC_CHANGE.fullmatch(setting_change) else setting_change.partition(" from ")[0]
    )


def _pseudonymise_verdicts(
    rows: Sequence[TidyRow], pairs: Sequence[Pair], pseudonyms: Mapping[str, str]
) -> pd.DataFrame:
    """Replace raters by pseudonyms. Sort verdicts, so that their order reveals neither times nor raters."""
    frame = make_verdict_table(rows)
    positions = {pair.id: pair.position for pair in pairs}
    frame = frame.assign(rater=frame["rater"].map(pseudonyms), place=frame["pair_id"].map(positions))
    frame = frame.sort_values(["place", "rater", "shown_first", "slot", "presentation", "criterion"])
    return frame.assign(presentation=pd.factorize(frame["presentation"])[0] + 1)


def _choose_pseudonyms(rows: Sequence[TidyRow], names: set[str]) -> dict[str, str]:
    """Choose the published name of each rater: a number for a person, and the original name for others.

    The numbers follow the order of the verdicts, and never the order of names, ids or arrival. So a list of
    names, ids or arrivals does not identify the raters. Hashes of names would not be safe, because a list of
    names can be hashed and compared.
    """
    answers: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in rows:
        if row.rater_kind == "person":
            answers[row.rater].append((row.pair_id, row.criterion, row.verdict, row.shown_first))
    prefix = "rater-"
    while any(name.startswith(prefix) for name in names):  # a judge may be called rater-3
        prefix = f"x{prefix}"
    width = len(str(len(answers)))
    numbered = enumerate(sorted(answers, key=lambda name: sorted(answers[name])), start=1)
    people = {name: f"{prefix}{number:0{width}}" for number, name in numbered}
    return {row.rater: people.get(row.rater, row.rater) for row in rows}


def _make_dataset_card(folder: Path, study: Study, verdicts: pd.DataFrame, **values: object) -> str:
    """Return README.md, the dataset card. The card quotes the report in the folder."""
    kinds = Counter(verdicts.drop_duplicates(["rater_kind", "rater"])["rater_kind"])
    return render(
        __file__,
        "dataset_card.md",
        settings=study.settings,
        models=study.local_models,
        raters=kinds,
        simulated=bool(kinds.keys() & SIMULATED),
        criteria=select_criteria(list(verdicts["criterion"].unique()), study.settings.rubric),
        answer=json.loads(read_text(folder / "report" / "report.json", limit=MOST_BYTES))["answer"],
        quote=lambda text: json.dumps(join_lines(text), ensure_ascii=False),
        **values,
    )


def _list_identifying_names(people: Sequence[RaterProgress]) -> set[str]:
    """Return the names and ids of people. A letter or a small number is very common and identifies nobody."""
    return {
        name
        for rater in people
        if rater.kind == "person"
        for name in (rater.name, rater.external_id or "")
        if len(name) > 1 and not re.fullmatch(r"\d{1,4}|P-\d+", name)  # P-3 is a number from this program
    }


def _list_texts_typed_by_people(facts: StudyFacts, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the published words that people typed outside study.toml, by their place."""
    prompts = {word for pair in pairs for word in (pair.dataset, pair.prompt_id)}
    return {
        "a dataset or the id of a prompt": "\n".join(sorted(prompts)),
        "a change of the settings": "\n".join(
            [*facts.reworded, *chain(*(declared.changes for declared in facts.parts))]
        ),
        "the reason of an exclusion": "\n".join(excluded.reason for excluded in facts.exclusions),
        "the request of a judge": "\n".join(row.text for row in facts.judging.prompts),
    }


def _check_for_names_and_keys(
    study: Study,
    people: Sequence[RaterProgress],
    allowed_names: Sequence[str],
    typed_texts: dict[str, str],
    files: dict[str, str],
) -> None:
    """Check that no setting contains a person's name or a key, and that no published file contains a key.

    Raises:
        StudyError: A name or a key was found. The message lists all of them.
    """
    settings = study.settings
    problems = []
    harmless = [{*split_into_simple_words(text)} for text in (*settings.authors, *allowed_names)]
    names = _list_identifying_names(people)
    typed = {
        **{name: _join_texts(to_json_value(getattr(settings, name))) for name in _TYPED},
        "model.name": "\n".join(model.name.split("/")[-1] for model in study.local_models),
        "system": _join_texts(
            [to_json_value(_list_published_system_texts(system)) for system in settings.system]
        ),
        "judge": "\n".join(judge.rater_name for judge in settings.judge),
        **typed_texts,
    }
    for setting, text in typed.items():
        words = [
            repr(word)
            for word in find_names_in_text(text, names)
            if not any(allowed.issuperset(split_into_simple_words(word)) for allowed in harmless)
        ]
        words += [f"{secret[:4]}…" for secret in _KEY.findall(text)]
        problems += [f"{setting} contains {word}" for word in words]
    key_variables = (keyed.api_key_env or "" for keyed in (*settings.judge, *settings.system))
    for variable in (*_SECRET_VARIABLES, *key_variables):
        value = os.environ.get(variable, "")
        escaped = json.dumps(value, ensure_ascii=False)[1:-1]  # as in a JSON or TOML file
        searched = (typed | files).items() if len(value) > 7 else ()
        problems += [
            f"{name} contains the value of {variable}"
            for name, text in searched
            if value in text or escaped in text
        ]
    if problems:
        raise StudyError(
            f"{study.folder} contains a rater's name or a key, so nothing was published. Change these "
            "settings, or allow a harmless name with --allow NAME:\n  " + "\n  ".join(problems)
        )


def _join_texts(value: object) -> str:
    """Join all keys and texts of a JSON value by line ends. JSON itself would change line ends and quotes."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return "\n".join(map(_join_texts, value)) if isinstance(value, list) else str(value or "")


def _list_published_system_texts(system: System) -> list[object]:
    """List the texts in a system's settings that are published: its name, its model, and request fields."""
    served = system.model.name if system.source == "server" and system.model else ""
    return [system.name, served, system.body]
