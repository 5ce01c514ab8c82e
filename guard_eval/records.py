"""The things a study is made of: prompt, continuation, pair, rater, plan. The contract between rooms.

An id is a hash of what makes the thing what it is. The same thing has the same id on every machine, and doing
a step twice does nothing.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self, get_args

Choice = Literal["A", "tie", "B"]
"""What a rater says of a pair on one criterion: the text shown as A is better, both are similar, or B is."""

CHOICES: tuple[Choice, ...] = ("A", "tie", "B")

RaterKind = Literal["person", "model", "simulated", "simulated_model"]
"""Who rates. No statistic pools kinds; `simulated` raters and a `simulated_model`, their judge, exist so that
a report can be seen without data."""

PEOPLE_OF: Mapping[str, str] = {"model": "person", "simulated_model": "simulated"}
"""The kinds that are judges, and the people whom each is compared with: simulated with simulated ones."""

PEOPLE = "people"
"""The part of a study's settings that holds for people, and for simulated raters in their place."""


def settings_part(name: str, kind: str) -> str:
    """Return which part of a study's settings (`Study.declared`) holds for a rater: people's or a judge's.

    >>> settings_part("Ann", "person"), settings_part("gpt-5", "model")
    ('people', 'judge gpt-5')
    """
    return f"judge {name}" if kind in PEOPLE_OF else PEOPLE


SIMULATED: frozenset[str] = frozenset({"simulated", "simulated_model"})
"""The kinds whose verdicts are made up."""

TIE = "tie"
"""The verdict that names neither method, in tidy tables."""

VisitStep = Literal["arrival", "consent", "background", "instructions", "practice", "check"]
"""What is noted of a rater before the first pair."""

Decision = Literal["exclude", "include", "erase"]
"""What the study's owner decides about a rater."""

NoteKind = Literal[VisitStep, "comment", "problem", "skip", "finished", Decision]
"""What is noted of a rater besides verdicts. `comment`, `problem` and `skip` belong to a pair."""

NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)

MESSAGE_BYTES = 20_000_000
"""The most that the app sends to a browser at once: a pair's texts, as JSON."""

Role = Literal["study", "gold", "repeat"]
"""Why a pair is shown: for the study, to see whether a clear case is seen, or whether the rater agrees with
itself. Raters see no difference, and only the study's count as verdicts."""


# made once: json.dumps makes one at every call
_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def content_id(*parts: object) -> str:
    """Return 16 hexadecimal digits that stand for `parts`, the same on every machine.

    >>> content_id("wikitext-0001", "guard") == content_id("wikitext-0001", "guard")
    True
    >>> content_id("ab", "c") == content_id("a", "bc")
    False
    """
    text = _AS_JSON(parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A text to be continued; `reference` is how a human continued it, where known."""

    id: str
    dataset: str
    text: str
    reference: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything but the prompt that can change a continuation's text.

    Attributes:
        model: A Hugging Face id, or a folder's path as the study names it.
        revision: The Hub's revision, or for a folder the hash of its files.
        strategy: The strategy's signature, such as `top_k(k=50)`.
        max_prompt_tokens: How many of the prompt's last tokens are kept.
        amateur: Contrastive decoding's smaller model; other strategies have none.
        engine: What ran the model if that was not transformers: `vllm`, whose arithmetic rounds differently.
        source: A hash of the source of a strategy of the user's own.
        stop: Strings before which a text ends.
    """

    model: str
    revision: str
    strategy: str
    seed: int
    max_new_tokens: int
    max_prompt_tokens: int
    dtype: str
    amateur: str | None = None
    amateur_revision: str | None = None
    chat: bool = False
    engine: str | None = None
    source: str | None = None
    stop: tuple[str, ...] = ()

    def continuation_id(self, prompt: Prompt, run: int = 1) -> str:
        """Return the id of the text that this recipe writes after `prompt` in its `run`th run.

        A folder counts by its content alone, a model of the Hub by name and revision. What only some texts
        have (amateur, chat, engine, source, stop, a run after the first) counts where it is set.
        """
        settings = self._identify(self.model, self.revision), self.revision, self.strategy, self.seed
        limits = self.max_new_tokens, self.max_prompt_tokens, self.dtype
        amateur = self.amateur and (
            self._identify(self.amateur, self.amateur_revision or ""),
            self.amateur_revision,
        )
        rare = {name: getattr(self, name) for name in ("chat", "engine", "source", "stop")}
        rare |= {"amateur": amateur, "run": run if run > 1 else 0}
        rare = {name: value for name, value in rare.items() if value}
        return content_id(prompt.id, prompt.text, *settings, *limits, *([rare] if rare else []))

    @staticmethod
    def _identify(model: str, revision: str) -> str:
        return "" if revision.startswith("sha256:") else model


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """A text that a model wrote after a prompt.

    Attributes:
        prompt_tokens: Length of the prompt as the model saw it, after truncation.
        new_tokens: Tokens written, the end-of-text token included, or the one that completes a stop string.
        finish: `eos` if the model ended the text, `length` if the limit did, `stop` for a stop string.
        seconds: Wall time of its batch, divided by the batch's rows.
        batch: How many rows were in that batch; speed depends on it.
        run: Which of the prompt's texts by this recipe it is: 1, 2, ….
    """

    id: str
    prompt_id: str
    dataset: str
    recipe: Recipe
    text: str
    prompt_tokens: int
    new_tokens: int
    finish: Literal["eos", "length", "stop"]
    seconds: float
    batch: int
    device: str
    versions: str
    run: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """How a strategy adapted to the continuation with this id: lists of one number for each new token.

    GUARD's are H_t, H_glob,t, k_t, α_t and q.
    """

    id: str
    prompt_id: str
    values: dict[str, list[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two continuations of one prompt, with their names: only the store and the report see this.

    `a` and `b` are the study's orientation (the first and second method of its comparison), never the sides
    shown.
    """

    id: str
    dataset: str
    prompt_id: str
    prompt: str
    method_a: str
    method_b: str
    continuation_a: str
    continuation_b: str
    text_a: str
    text_b: str
    position: int
    """Where the seeded shuffle put it: 0, 1, …; even positions show `a` first to begin with."""
    for_people: bool = True
    """Whether people rate it; a judge rates every pair."""

    @staticmethod
    def make_id(method_a: str, method_b: str, continuation_a: str, continuation_b: str) -> str:
        """Return the pair's id; the same two continuations under the same names are the same pair."""
        return content_id("pair", method_a, method_b, continuation_a, continuation_b)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gold:
    """A pair with a clear answer, to see who reads. It is no part of the study.

    `expected` has the better text by criterion. Criteria that are not clear are left out.
    """

    pair: Pair
    expected: Mapping[str, Literal["a", "b"]]


_WHITE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b"
"""Unicode's white space, the byte order mark and the zero-width space."""


def as_shown(text: str) -> str:
    r"""Return a text as raters receive it, without invisible characters that would show where it comes from.

    Line ends become `\n`, composed characters one code point (NFC), and white space around the text goes.

    >>> as_shown(" cafe\u0301\r\nau lait\n")
    'café\nau lait'
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", lines).strip(_WHITE)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlindPair:
    """What a rater receives: two texts and no names. The app and the judge never get anything else.

    `presentation` is the number under which the verdict comes back; it says nothing about methods or sides.
    `of` makes of stored texts what is shown.
    """

    presentation: int
    prompt: str
    text_a: str
    """The text shown as A: on the left, or first."""
    text_b: str
    """The text shown as B: on the right, or second."""

    @classmethod
    def of(cls, presentation: int, prompt: str, text_a: str, text_b: str) -> Self:
        """Make one of texts as they are stored."""
        prompt, text_a, text_b = map(as_shown, (prompt, text_a, text_b))
        return cls(presentation=presentation, prompt=prompt, text_a=text_a, text_b=text_b)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rater:
    """A person, a model or a simulation that compares pairs."""

    id: int
    name: str
    kind: RaterKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How pairs are handed to one rater.

    Attributes:
        seed: The study's seed, which decides where the search for a free slot begins.
        slots: Showings per pair: raters per pair for people, orders for a model.
        lease: After this long and unrated, a presentation's slot may go to another rater.
        quota: How many of the study's pairs one person may rate; None for as many as there are.
        gold_every: One gold pair is mixed into so many of the study's; None for none.
        repeats: How many of a person's pairs are shown again later with the sides swapped.
        one_order: A model sees each pair in one order only, drawn by the seed.
    """

    seed: int
    slots: int
    lease: timedelta
    quota: int | None = None
    gold_every: int | None = None
    repeats: int = 0
    one_order: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredPart:
    """A part of the settings: people's, or a judge's.

    Attributes:
        hash: The hash of the settings today.
        first_hash: Their hash at the first verdict; None before there is one.
        changes: What changed since, such as `analysis.alpha from 0.05 to 0.01`.
    """

    name: str
    hash: str
    first_hash: str | None = None
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeSpending:
    """What one judge has taken over all runs. Requests that were surely not billed are left out.

    Attributes:
        lost: Requests whose answer never came, and which a server may have billed.
        open: Requests under way, or in a batch.
        unmetered: Answers without token counts.
        usd: What the answers cost, at least: answers of unknown cost count for what was set aside.
        held_usd: What is set aside for what is lost or open.
        unpriced: Requests whose price is unknown; they are in neither sum.
    """

    judge: str
    requests: int
    answers: int
    lost: int
    open: int
    unmetered: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: float
    held_usd: float
    unpriced: int
    written_tokens: int = 0


UsageRow = Mapping[str, Any]
"""A row of a table, by the names of its columns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeUsage:
    """How judges were asked. Each row names its `judge`.

    Attributes:
        prompts: The version, description and text of a judge's prompt.
        failed: The kind, reason and count of what a judge left without a verdict.
        seen: A model and fingerprint that answered: how often, first and last, in UTC.
        checked: A pair (`item`) and criterion of a calibration's check (`check`): for each order that was
            answered `target` for the text that the check is about (the intact one, the padded one, the first
            method's), `other` or `tie` (`answers`), and how many orders were `asked`.
        asked_otherwise: The judges whose settings changed while they judged, with the changes.
    """

    prompts: tuple[Mapping[str, str], ...] = ()
    spent: tuple[JudgeSpending, ...] = ()
    failed: tuple[UsageRow, ...] = ()
    seen: tuple[UsageRow, ...] = ()
    checked: tuple[UsageRow, ...] = ()
    asked_otherwise: tuple[str, ...] = ()
