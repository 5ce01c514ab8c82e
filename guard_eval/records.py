"""The things a study is made of: prompt, continuation, pair, rater, plan.

Frozen, and all in one place: this file is the contract between the rooms. An id is a
hash of what makes the thing what it is, so that the same thing has the same id on every machine and doing a
step twice does nothing.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Self, get_args

from guard_eval.errors import StudyError

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

NoteKind = Literal[
    "arrival",
    "consent",
    "background",
    "instructions",
    "practice",
    "check",
    "comment",
    "problem",
    "skip",
    "finished",
    "exclude",
    "include",
    "erase",
]
"""What is noted of a rater besides verdicts. `arrival` to `check` happen before the first pair; `comment`,
`problem` and `skip` belong to a pair; `exclude`, `include` and `erase` are decisions of the study's owner."""

MESSAGE_BYTES = 20_000_000
"""The most that the app sends to a browser at once: a pair's texts, as JSON."""

NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)

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
        seed: The study's seed.
        max_new_tokens: The length limit, in tokens.
        max_prompt_tokens: How many of the prompt's last tokens are kept.
        dtype: The arithmetic of the model, such as `bfloat16`.
        amateur: Contrastive decoding's smaller model, by its name; other strategies have none.
        amateur_revision: Its revision, as `revision`.
        chat: Whether the prompt went through the model's chat template.
        engine: What ran the model, where that was not transformers: `vllm`, whose arithmetic rounds
            differently.
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
        """Return the id of the continuation this recipe makes of `prompt` in its `run`th run.

        The model's name does not count where its content does: `revision` is a hash for a folder, and a Hub
        revision is only unique together with the name, so both stand in the hash for the Hub and the revision
        alone for a folder. What only some texts have (amateur, chat, engine, source, stop, a run after the
        first) counts where it is set.
        """
        amateur = self.amateur and [
            _content_name(self.amateur, self.amateur_revision or ""),
            self.amateur_revision,
        ]
        settings: dict[str, object] = {
            "amateur": amateur,
            "chat": self.chat,
            "engine": self.engine,
            "source": self.source,
        }
        settings |= {"stop": self.stop, "run": 0 if run == 1 else run}
        rare = {name: value for name, value in settings.items() if value}
        return content_id(
            prompt.id,
            prompt.text,
            _content_name(self.model, self.revision),
            self.revision,
            self.strategy,
            self.seed,
            self.max_new_tokens,
            self.max_prompt_tokens,
            self.dtype,
            *([rare] if rare else []),
        )


def _content_name(model: str, revision: str) -> str:
    return "" if revision.startswith("sha256:") else model


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """A text that a model wrote after a prompt.

    Attributes:
        id: `Recipe.continuation_id` of its prompt and run.
        prompt_id: Which prompt it continues.
        dataset: The prompt's dataset.
        recipe: How it was made.
        text: The continuation alone, without the prompt.
        prompt_tokens: Length of the prompt as the model saw it, after truncation.
        new_tokens: Tokens made, the end-of-text token included, or the one that completes a stop string.
        finish: `eos` when the model ended the text, `length` when the limit did, `stop` a stop string.
        seconds: Wall time of the batch it was made in, divided by the batch's rows.
        batch: How many rows were in that batch; speed depends on it.
        device: Where it was made, such as `cpu` or `NVIDIA H200`.
        versions: Versions of the libraries that made it.
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
    """How a strategy adapted to a text, token by token: GUARD's H_t, H_glob,t, k_t, α_t and q.

    Attributes:
        id: That of the `Continuation`.
        prompt_id: Which prompt it continues.
        values: Lists of one number per new token, by name.
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
    """A pair with a clear answer, mixed in to see who reads; it is no part of the study.

    Attributes:
        pair: Of any two methods, such as a human's text and the same with its words shuffled.
        expected: The better text by criterion; criteria that are not clear are left out.
    """

    pair: Pair
    expected: Mapping[str, Literal["a", "b"]]


_WHITE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff\u200b"
)
"""Unicode's white space, the byte order mark and the zero-width space. A pattern takes ten times as long."""


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
        seed: The study's seed. It decides, for each showing, where the search for a free slot begins.
        slots: Showings per pair in the rater's pool: raters per pair for people, orders for a model.
        lease: After this long and unrated, a presentation's slot may go to another rater.
        quota: How many of the study's pairs one rater may rate; None for as many as there are.
        gold_every: One gold pair is mixed into so many of the study's, at seeded places; None for none.
        repeats: How many of a rater's own pairs it is shown again later with the sides swapped.
        one_order: A model sees each pair in one order only, drawn by the seed: every other slot.

    `quota`, `gold_every` and `repeats` are for people and simulations; a model sees every slot and no more.
    """

    seed: int
    slots: int
    lease: timedelta
    quota: int | None = None
    gold_every: int | None = None
    repeats: int = 0
    one_order: bool = False

    def __post_init__(self) -> None:
        """Raise a `StudyError` if a number is too small."""
        for what, number, least in (
            ("slots per pair", self.slots, 1),
            ("pairs per rater (quota)", self.quota, 1),
            ("pairs to one gold pair (gold_every)", self.gold_every, 1),
            ("repeats", self.repeats, 0),
        ):
            if number is not None and number < least:
                raise StudyError(f"the plan has {number} {what}; it needs at least {least}")


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeSpending:
    """What one judge has taken so far, over all runs.

    Attributes:
        judge: The rater's name.
        requests: Requests sent, those that were surely not billed left out.
        answers: Those that were answered in full.
        lost: Those whose answer never came, which a server may have billed.
        open: Those under way, or in a batch.
        unmetered: Answers without token counts.
        input_tokens: Tokens of the requests; `cached_tokens` and `written_tokens` are among them.
        cached_tokens: Tokens billed as cached.
        written_tokens: Tokens billed as written to the server's cache.
        output_tokens: Tokens of the answers; `reasoning_tokens` are among them.
        reasoning_tokens: Tokens of reasoning.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSeen:
    """What a judge's server called the model and its configuration, how often, and from when to when.

    `model` and `fingerprint` are None where the server did not name them; times are in UTC.
    """

    judge: str
    model: str | None
    fingerprint: str | None
    answers: int
    first: datetime
    last: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredPart:
    """A part of the settings today, and at the first verdict of its raters.

    Attributes:
        name: `people`, or `judge` and its name.
        hash: The part's hash today.
        first_hash: Its hash at the first verdict; None before there is one.
        changes: What changed since, such as `analysis.alpha from 0.05 to 0.01`.
    """

    name: str
    hash: str
    first_hash: str | None = None
    changes: tuple[str, ...] = ()


CheckName = Literal["identical", "shuffled", "swapped", "padded"]
"""A check of a judge's calibration, which asks about pairs whose answer is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedItem:
    """What a judge answered on one item of a calibration's check, on one criterion.

    Attributes:
        judge: Its name as a rater.
        check: Which check.
        item: The study's pair it was made of, by its id.
        criterion: The criterion.
        answers: For each order answered: `target` for the text that the check is about (the intact one, the
            padded one, the first method's), `other`, or `tie`.
        asked: In how many orders it was asked.
    """

    judge: str
    check: CheckName
    item: str
    criterion: str
    answers: tuple[str, ...]
    asked: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedPrompt:
    """The prompt of one judge: its hash, what prompt it is, and all of it with placeholders for the texts."""

    judge: str
    version: str
    words: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCount:
    """How many showings of pairs one judge left without a verdict, for one reason, in the server's words."""

    judge: str
    kind: str
    count: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeUsage:
    """How judges were asked: prompts, spending, failures, models that answered, calibration, changes."""

    prompts: tuple[UsedPrompt, ...] = ()
    spent: tuple[JudgeSpending, ...] = ()
    failed: tuple[FailureCount, ...] = ()
    seen: tuple[ModelSeen, ...] = ()
    checked: tuple[CheckedItem, ...] = ()
    asked_otherwise: tuple[str, ...] = ()
