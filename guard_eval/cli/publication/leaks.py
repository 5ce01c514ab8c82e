"""What must not be published: who rated, what they wrote of themselves, keys, links, addresses.

Names and ids that the study's database holds are searched in every cell, line, file name and in images and
PDFs, as whole words, however they are escaped. So are keys and invites. Patterns that stand in ordinary prose
too, such as e-mail addresses, are searched outside the prompts and continuations: a story may have one.
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import shlex
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import unquote

from guard_eval.cli.console import count_of
from guard_eval.cli.publication.dataset import WORDS
from guard_eval.lookalike import look
from guard_eval.reporting.escaping import escape_latex
from guard_eval.store import Store
from guard_eval.study.folder import Study

_NAME = "a rater's name"
_KEY = "an API key or a password"
_INVITE = "an invite or a participant's link"
_SERVER = "the address of a server"
_FOLDER = "the path of a person's folder"
_ALWAYS = {
    _KEY: (
        r"(?<![A-Za-z0-9])(?:sk-(?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
        r"|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}"
        r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|-----BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@\"']*:[^\s/@\"']+@"
        r"|(?i:\bbearer\s+[\w.~+/-]{20,})"
    ),
    _INVITE: r"[?&](?:invite|cc|PROLIFIC_PID|SESSION_ID|STUDY_ID)=[\w%-]+",
}
_OUTSIDE_TEXTS = {
    "an e-mail address": (
        r"(?<![\w.+-])[\w.+-]+(?:@|\s?[(\[](?i:at|@)[)\]]\s?)[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}"
    ),
    "an IP address": (
        r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)"
        r"(?![\w.]*\d)|(?<![\w:])(?:(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}"
        r"|(?:[0-9a-fA-F]{1,4}:){2,6}(?::[0-9a-fA-F]{1,4}){1,5})(?![\w:])"
    ),
    "what looks like a Prolific id": (r"(?<![0-9A-Za-z])(?=\d*[A-Fa-f])[0-9A-Fa-f]{24}(?![0-9A-Za-z])"),
    _FOLDER: r"(?:/home/|/Users/|/root/|(?i:\b[A-Z]:\\+Users\\+))[^\s/\\\"'<>]+",
    _KEY: r"(?i)\b(?:api[_-]?key|secret|password|passwd|access[_-]?token)[\"']?\s*[=:]\s*[\"']?[\w+/-]{8,}",
}
_IN_WORDS = {
    "a phone number": (
        r"(?<![\w.,+-])(?:(?:\+|00)[1-9](?:[ ()./-]{0,2}\d){6,13}|0\d(?:[ ()/-]{0,2}\d){7,11}"
        r"|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?![\w,.]*\d)"
    ),
}
_URL = re.compile(r"\b([a-z][a-z0-9+]*)://(?:[^\s/\"'@]*@)?(\[[^\]]*\]|[^\s/:\"'<>`)]+)")
_TOKEN = re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])", re.ASCII)
# Thai, Lao, Burmese, Khmer, kana, Chinese, Hangul: no space ends a name there, or a particle follows it.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W_{_UNSPACED}]"
_WORD = re.compile(rf"[{_UNSPACED}]|{_LETTER}+")
_TWINS = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u04bb\u0501"
    "\u03b1\u03b2\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131\u0251\u0261",
    "abekmhopctyxsijhdabehikvoptyxiag",
)
"""Letters of Cyrillic, Greek and the phonetic alphabet, and the Latin ones for which they are taken."""
Place = Literal["texts", "words", "other"]
"""What a model or an author wrote; what raters and judges wrote; all else."""
_EVERYWHERE: frozenset[Place] = frozenset(get_args(Place))
_OUTSIDE = _EVERYWHERE - {"texts"}
_PATTERNS: Mapping[Place, Sequence[Mapping[str, str]]] = {
    "texts": [_ALWAYS],
    "words": [_ALWAYS, _OUTSIDE_TEXTS, _IN_WORDS],
    "other": [_ALWAYS, _OUTSIDE_TEXTS],
}
_PLACES: Mapping[tuple[str, str], Place] = {
    **{("pairs.jsonl", name): "texts" for name in ("prompt", "text_a", "text_b")},
    **{(f"{kind}.jsonl", "text"): "words" for kind in WORDS},
}


@dataclass(frozen=True, kw_only=True)
class Leak:
    """Something that would be given away, and where: a line or row, and a column where there are any."""

    file: str
    row: int | None
    column: str
    what: str
    value: str


@dataclass(frozen=True, kw_only=True)
class _Identity:
    pattern: re.Pattern[str]
    what: str
    places: AbstractSet[Place]


class LeakFinder:
    """Searches files for what a study must not give away.

    Args:
        study: Its settings hold codes and name the variables with keys.
        store: Its database knows raters, and what they wrote.
        allow: Words that are found and are harmless, such as a name in a story that is also a rater's.
        comments: Comments are published on purpose: they are searched, not searched for.
    """

    def __init__(
        self, study: Study, store: Store, *, allow: Iterable[str] = (), comments: bool = False
    ) -> None:
        self._opens: Callable[[str], object] = store.sign_in
        self._allowed = set(map(_form, allow))
        self._by_word: dict[str, list[_Identity]] = defaultdict(list)
        for text, what, places in _of_raters(store, comments=comments):
            self._add_name(text, what, places)
        for text, what, places in _of_settings(study):
            self._add(text, what, places)
        texts = [text for pair in store.pairs() for text in (pair.prompt, pair.text_a, pair.text_b)]
        for pattern in _OUTSIDE_TEXTS.values():  # the report shows texts, too
            self._allowed |= {_form(found[0]) for text in texts for found in re.finditer(pattern, text)}

    def _add_name(self, text: str, what: str, places: AbstractSet[Place]) -> None:
        """Search for a name as it is written, and however its words are separated, joined or turned round."""
        form = _form(text)
        words = _WORD.findall(form)
        letters = "".join(words)
        if len(letters) < 2 or (form.isdigit() and len(form) < 5):
            return  # a letter or a small number is everywhere and identifies no one
        if len(form) == 2 and not re.match(f"[{_UNSPACED}]{{2}}", letters):
            places = places & {"words"}
        self._add(text, what, places)
        if form not in self._allowed and len(words) > 1 and len(letters) > 2 and letters.isalpha():
            orders = [words, [words[-1], *words[:-1]], [letters]] if len(words) < 5 else [words]
            for order in orders:
                self._add_pattern(r"[\W_]*".join(map(re.escape, order)), order[0], what, places)
        if what == _NAME and len(words) > 1:  # of Ada Example others write "Ada"
            for word in {word for word in words if len(word) > 2 and word.isalpha()} - self._allowed:
                self._add_pattern(re.escape(word), word, what, places & {"words"})

    def _add(self, text: str, what: str, places: AbstractSet[Place]) -> None:
        for form in {_form(text), _form(_unescaped("x.tex", escape_latex(text)))}:
            if (words := _WORD.findall(form)) and form not in self._allowed:
                self._add_pattern(re.escape(form), words[0], what, places)

    def _add_pattern(self, pattern: str, word: str, what: str, places: AbstractSet[Place]) -> None:
        whole = re.compile(rf"(?<!{_LETTER}(?={_LETTER})){pattern}(?!(?<={_LETTER}){_LETTER})")
        self._by_word[word].append(_Identity(pattern=whole, what=what, places=places))

    def search(self, files: Mapping[str, bytes]) -> list[Leak]:
        """Return all that is found in files by name, each value once a place."""
        leaks: dict[Leak, None] = {}
        for name, data in files.items():
            known: dict[tuple[str, Place], list[tuple[str, str]]] = {}  # tables repeat their cells
            for row, column, text in (((None, "file name", name)), *_cells(name, data)):
                place = _PLACES.get((name, column), "other")
                if (text, place) not in known:
                    known[text, place] = list(self._found(name, text, place))
                for what, value in known[text, place]:
                    leaks[Leak(file=name, row=row, column=column, what=what, value=value)] = None
        return list(leaks)

    def _found(self, name: str, text: str, place: Place) -> Iterator[tuple[str, str]]:
        for view in {text, _unescaped(name, text)}:
            yield from self._identities(look(view), place)
            seen = look(view, case=True)
            patterns = [pair for each in _PATTERNS[place] for pair in each.items()]
            hits = [(what, found[0]) for what, pattern in patterns for found in re.finditer(pattern, seen)]
            hits += [(_INVITE, token) for token in _TOKEN.findall(seen) if self._opens(token) is not None]
            if name == "study.toml":
                hits += [(_SERVER, host) for host in _servers(view)]
            yield from ((what, value) for what, value in hits if _form(value) not in self._allowed)

    def _identities(self, shape: str, place: Place) -> Iterator[tuple[str, str]]:
        form = shape.translate(_TWINS)  # letter by letter, so that places stay
        for word in set(_WORD.findall(form)) & self._by_word.keys():
            for identity in self._by_word[word]:
                if place in identity.places:
                    hits = [hit for hit in identity.pattern.finditer(form) if hit[0] not in self._allowed]
                    yield from (
                        (identity.what, value) for value in {shape[slice(*hit.span())] for hit in hits}
                    )


def _form(text: str) -> str:
    """Return the form in which names are compared: what a reader takes for the same is the same."""
    return look(text).translate(_TWINS)


def _of_raters(store: Store, *, comments: bool) -> Iterator[tuple[str, str, AbstractSet[Place]]]:
    """Yield what the database knows of people: a text, what it is, and where it must not be."""
    for rater in store.raters():
        if rater.kind == "person":
            # P-3 is a number that an enrolled rater was given; a story may have a P-3, too
            enrolled = re.fullmatch(r"P-\d+", rater.name)
            yield rater.name, _NAME, _OUTSIDE if enrolled else _EVERYWHERE
        if rater.external_id:
            yield rater.external_id, "a rater's id", _EVERYWHERE
    for note in store.notes():
        values = _values(note.detail)
        if note.kind == "arrival":
            yield from (
                (value, "how a rater came", _EVERYWHERE) for value in values if re.search(r"\d", value)
            )
        elif note.kind in {"exclude", "include", "erase"}:
            decided = json.loads(note.detail)
            yield str(decided.get("by", "")), "the name of who decided on a rater", _OUTSIDE
        elif note.kind == "background" or (note.kind == "comment" and not comments):
            what = f"a rater's {'comment' if note.kind == 'comment' else 'answer on themselves'}"
            yield from ((value, what, _EVERYWHERE) for value in values if len(value.split()) > 2)


def _values(detail: str) -> list[str]:
    """Return the texts in a note: those of its JSON, or all of it."""
    try:
        found = json.loads(detail)
    except ValueError:
        return [detail]
    return [text for _, text in _walk(found)] if isinstance(found, dict) else [detail]


def _of_settings(study: Study) -> Iterator[tuple[str, str, AbstractSet[Place]]]:
    """Yield what is secret in the settings and in the variables that they name, and the owner's folders."""
    codes = study.settings.annotation.recruitment.codes.model_dump().values()
    yield from ((code, "a completion code", _EVERYWHERE) for code in codes if code)
    if study.settings.database:
        yield from ((host, _SERVER, _EVERYWHERE) for _, host in _URL.findall(study.settings.database))
    variables = {judge.api_key_env for judge in study.settings.judge} | {"PGPASSWORD", "HF_TOKEN"}
    for variable in (*variables, "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        if variable and len(value := os.environ.get(variable, "")) > 7:
            yield value, _KEY, _EVERYWHERE
    yield str(study.folder.resolve()), _FOLDER, _OUTSIDE
    with suppress(RuntimeError):  # a process without a home
        yield f"/{Path.home().name}", _FOLDER, _OUTSIDE


def _servers(text: str) -> Iterator[str]:
    """Yield hosts that are no public service: without TLS, or with a name of a local network."""
    for scheme, host in _URL.findall(text):
        if host in {"localhost", "[::1]"} or host.startswith("127.") or scheme == "sqlite":
            continue
        local = "." not in host or host.rsplit(".", 1)[1] in {"local", "internal", "lan", "intranet", "corp"}
        if scheme != "https" or local:
            yield host


def _unescaped(name: str, text: str) -> str:
    """Return a text as its reader sees it; entities and addresses may stand in any file."""
    text = html.unescape(unquote(text))
    if name.endswith((".md", ".tex", ".bib")):
        return re.sub(r"\\([^A-Za-z])|[{}]", r"\1", text)
    return text


def _cells(name: str, data: bytes) -> Iterator[tuple[int | None, str, str]]:
    """Yield row, column and text of all that a file holds."""
    if name.endswith(".png"):
        yield from ((None, "metadata", text) for text in _png_texts(data))
        return
    if name.endswith(".pdf"):
        yield from ((None, "text", text) for text in _pdf_texts(data))
        return
    text = data.decode("utf-8", "replace")
    if name.endswith(".csv"):
        table = csv.reader(io.StringIO(text))
        heads = next(table, [])
        yield from ((1, head, head) for head in heads)
        for number, cells in enumerate(table, start=2):
            yield from ((number, head, cell) for head, cell in zip(heads, cells, strict=False))
    elif name.endswith((".jsonl", ".json")):
        lines = text.split("\n") if name.endswith(".jsonl") else [text]
        for number, line in enumerate(lines, start=1):
            row = number if len(lines) > 1 else None
            yield from ((row, column, each) for column, each in _walk(json.loads(line) if line else {}))
    else:
        lines = text.split("\n")
        yield from ((number, "", line) for number, line in enumerate(lines, start=1))
        # what is broken over two lines
        yield from ((number, "", " ".join(two)) for number, two in enumerate(pairwise(lines), start=1))


def _walk(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of JSON, keys among them, with their places."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _walk(each, f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, each in value.items():
            place = f"{path}.{key}" if path else str(key)
            yield place, str(key)
            yield from _walk(each, place)


def _png_texts(data: bytes) -> Iterator[str]:
    """Yield the chunks of a PNG that hold words."""
    place = 8
    while place + 8 <= len(data):
        size, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + size]
        if kind in {b"tEXt", b"zTXt", b"iTXt", b"eXIf"}:
            yield body.replace(b"\0", b" ").decode("utf-8", "replace")
            for start in (at.end() for at in re.finditer(rb"\x00", body)):
                try:
                    yield zlib.decompress(body[start:]).decode("utf-8", "replace")
                except zlib.error:
                    continue
        place += 12 + size


def _pdf_texts(data: bytes) -> Iterator[str]:
    """Yield the metadata of a PDF, and each line of text that its streams draw."""
    stream = re.compile(rb"stream\r?\n(.*?)endstream", re.DOTALL)
    string = re.compile(rb"\(((?:[^()\\]|\\.)*)\)", re.DOTALL)
    lines = [[one] for one in string.findall(stream.sub(b"", data))]
    for found in stream.finditer(data):
        with suppress(zlib.error):  # a stream that is not compressed holds no text
            drawn = zlib.decompressobj().decompress(found[1])
            # letters are strings of their own where there is space between them: [(Mar) -20 (ge)] TJ
            lines += [string.findall(line) for line in re.split(rb"\]\s*TJ|Tj", drawn)]
    for line in lines:
        text = re.sub(rb"\\(.)", rb"\1", b"".join(line), flags=re.DOTALL)
        yield text.decode("utf-16-be" if b"\0" in text else "latin-1", "replace")


def refusal(leaks: Sequence[Leak], study: Study) -> str:
    """Return what is wrong and how to fix it, each value once, with its first place."""
    places: dict[tuple[str, str], list[Leak]] = defaultdict(list)
    for leak in leaks:
        places[leak.what, leak.value].append(leak)
    lines = [f"{count_of(len(places), 'thing')} would be given away, so nothing was published:"]
    for (what, value), found in list(places.items())[:MOST_SHOWN]:
        first = min(found, key=lambda leak: leak.file not in _SOURCES)  # the report repeats what these say
        where = first.file if first.row is None else f"{first.file}, {_row(first)} {first.row}"
        column = f", {first.column}" if first.column else ""
        more = f" and {len(found) - 1} more places" if len(found) > 1 else ""
        shown = f"{value[:4]}…" if what in {_KEY, _INVITE} else repr(value)
        lines.append(f"  {where}{column}{more}: {what}, {shown}; {_remedy(first, study)}")
    if len(places) > MOST_SHOWN:
        lines.append(f"  … and {len(places) - MOST_SHOWN} more")
    lines.append("What is there by chance, such as a name in a story, is let through by: --allow WORD")
    return "\n".join(lines)


MOST_SHOWN = 20
_SOURCES = frozenset({"study.toml", "pairs.jsonl", "comments.jsonl", "rationales.jsonl"})


def _row(leak: Leak) -> str:
    return "row" if leak.file.endswith((".csv", ".jsonl")) else "line"


def _remedy(leak: Leak, study: Study) -> str:
    if leak.file in {"comments.jsonl", "rationales.jsonl"}:
        return f"leave --include {leak.file.removesuffix('.jsonl')} out"
    if _PLACES.get((leak.file, leak.column)) == "texts":
        return "it is in the study's prompts or texts: take that prompt out and pair again"
    if leak.file == "study.toml":
        return f"remove it from {study.folder / 'study.toml'}"
    if leak.what == _NAME:
        return (
            f"where it is only a word of the report, a column or a method: --allow {shlex.quote(leak.value)}"
        )
    return "find where study.toml, a criterion's words or a judge's name bring it in, and remove it there"
