"""The records of a study, which all packages share: prompt, continuation, pair, rater, plan.

An id is a hash of all content that identifies a record, so repeating a step changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self

from guard_eval.frozen import record

JsonObject = dict[str, Any]
"""A JSON object, whose values are of any kind."""

Choice = Literal["A", "tie", "B"]
"""What a rater says of a pair on one criterion: the text shown as A is better, both are similar, or B is."""

CHOICES: tuple[Choice, ...] = ("A", "tie", "B")

RaterKind = Literal["person", "model", "simulated", "simulated_model"]
"""Who rates. No statistic pools kinds; simulated ones exist so that a report can be seen without data."""

PEOPLE_OF: Mapping[str, str] = {"model": "person", "simulated_model": "simulated"}
"""The kinds that are judges, and the people whom each is compared with: simulated with simulated ones."""

SIMULATED: frozenset[str] = frozenset({"simulated", "simulated_model"})
"""The kinds whose verdicts are made up."""

PEOPLE = "people"
"""The part of a study's settings that holds for people, and for simulated raters in their place."""

TIE = "tie"
"""The verdict that names neither method, in tidy tables."""

Decision = Literal["exclude", "include", "revoke", "erase"]
"""What the study's owner decides about a rater."""

NoteKind = Literal[
    "arrival", "consent", "background", "instructions", "practice", "check", "finished",
    "comment", "problem", "skip", "conduct", Decision,
]  # fmt: skip
"""What is noted of a rater besides verdicts: steps of a visit, remarks on a pair, the owner's decisions."""

MESSAGE_BYTES = 20_000_000
"""The most that the app sends to a browser at once: a pair's texts, as JSON."""

BILLION = 10**9
"""What requests cost is counted in billionths of a US dollar."""

Role = Literal["study", "gold", "repeat"]
"""Why a pair is shown. Raters see no difference, and only the study's own count as verdicts."""


def settings_part(name: str, kind: str) -> str:
    """Return the part of `Study.declared` that applies to a rater: that of people or of a judge."""
    return f"judge {name}" if kind in PEOPLE_OF else PEOPLE


def name_deciding_group(name: str, kind: str) -> str:
    """Return the group of raters that decides together which comparisons stop. A judge decides alone."""
    return kind if kind == "simulated" else settings_part(name, kind)


# made once: json.dumps makes one at every call
_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def content_id(*parts: object) -> str:
    """Return 16 hexadecimal digits that stand for `parts`, the same on every machine.

    >>> content_id("ab", "c") == content_id("a", "bc")
    False
    """
    return hashlib.sha256(_AS_JSON(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@record
class Prompt:
    """A text to be continued. `reference` is a human's continuation, if it is known."""

    id: str
    dataset: str
    text: str
    reference: str | None = None


@record
class Recipe:
    """All conditions that can change a continuation's text, except the prompt.

    Attributes:
        revision: The Hub's revision, or for a folder the hash of its files.
        strategy: The strategy's signature, such as `top_k(k=50)`.
        max_prompt_tokens: The number of the prompt's last tokens that are kept.
        amateur: Contrastive decoding's smaller model; other strategies have none.
        engine: What ran the model if that was not transformers: `vllm`, whose arithmetic rounds differently.
        source: A hash of the source of a strategy of the user's own.
        chat_template: The settings that the chat template was given, as JSON.
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
    chat_template: str = ""

    def continuation_id(self, prompt: Prompt, run: int = 1) -> str:
        """Return the id of the text that this recipe writes after `prompt` in its `run`th run.

        A folder counts by its content alone, a model of the Hub by name and revision. What only some texts
        have (amateur, chat and its template's settings, engine, source, stop, a run after the first) counts
        where it is set.
        """
        models = [(self.model, self.revision), (self.amateur, self.amateur_revision)]
        model, amateur = (("" if str(at).startswith("sha256:") else name, at) for name, at in models)
        rare = {name: getattr(self, name) for name in ("chat", "chat_template", "engine", "source", "stop")}
        rare |= {"amateur": self.amateur and amateur, "run": run if run > 1 else 0}
        rare = {name: value for name, value in rare.items() if value}
        settings = *model, self.strategy, self.seed, self.max_new_tokens, self.max_prompt_tokens, self.dtype
        return content_id(prompt.id, prompt.text, *settings, *([rare] if rare else []))


@record
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


@record
class Pair:
    """Two continuations of one prompt, with their names: only the store and the report see this.

    Attributes:
        method_a: The first method of the study's comparison, which is not the side shown.
        position: Where the seeded shuffle put it: 0, 1, …; even positions show `a` first to begin with.
        for_people: Whether people rate it; a judge rates every pair.
        round: The round of prompts in which it is shown; 0 if the study has no rounds.
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
    for_people: bool = True
    round: int = 0

    @staticmethod
    def make_id(method_a: str, method_b: str, continuation_a: str, continuation_b: str) -> str:
        """Return the pair's id; the same two continuations under the same names are the same pair."""
        return content_id("pair", method_a, method_b, continuation_a, continuation_b)


@record
class Gold:
    """A pair outside the study, with a known better text on the criteria that are clear."""

    pair: Pair
    expected: Mapping[str, Literal["a", "b"]]


_WHITE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b"
"""Unicode's white space, the byte order mark and the zero-width space."""


def clean_for_raters(text: str) -> str:
    r"""Return a text as raters receive it, without invisible characters that would show where it comes from.

    Line ends become `\n`, composed characters one code point (NFC), and white space around the text goes.

    >>> clean_for_raters(" cafe\u0301\r\nau lait\n")
    'café\nau lait'
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", lines).strip(_WHITE)


@record
class BlindPair:
    """The pair that a rater receives: two texts and no names. The app and the judge get nothing else.

    `presentation`, the number under which the verdict comes back, says nothing about methods or sides.
    """

    presentation: int
    prompt: str
    text_a: str
    text_b: str

    @classmethod
    def from_texts(cls, presentation: int, prompt: str, text_a: str, text_b: str) -> Self:
        """Return stored texts as they are shown."""
        prompt, text_a, text_b = map(clean_for_raters, (prompt, text_a, text_b))
        return cls(presentation=presentation, prompt=prompt, text_a=text_a, text_b=text_b)


@record
class Rater:
    """A person, a model or a simulation that compares pairs."""

    id: int
    name: str
    kind: RaterKind


Couple = tuple[str, str]
"""Two systems that are compared."""


@record
class RoundPlan:
    """The plan that decides, after a round of prompts, which comparisons go on.

    Attributes:
        design: `rounds`: a system that is beaten leaves. `candidate`: a comparison that is decided stops.
        criterion: The criterion that decides.
        alpha: The chance that any of the decisions is wrong.
        showings: The number of verdicts that a pair needs.
    """

    design: Literal["rounds", "candidate"]
    criterion: str
    alpha: float
    showings: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """The verdicts of people, or of one judge, on the rounds that are over.

    Attributes:
        plan: How it is decided which couples go on.
        sizes: The number of prompts of each round.
        couples: The systems that are compared.
        done: The number of rounds that are over.
        stopped: The last round of each couple that has stopped.
        prompts: The round of each prompt, and its scores from −1 to 1, positive for a couple's first system.
            A couple has a score where all its ratings are in.
    """

    plan: RoundPlan
    sizes: tuple[int, ...]
    couples: tuple[Couple, ...]
    done: int
    stopped: Mapping[Couple, int]
    prompts: Sequence[tuple[int, Mapping[Couple, float]]]

    def active_couples(self, number: int) -> list[Couple]:
        """Return the couples that are shown in a round."""
        return [couple for couple in self.couples if self.stopped.get(couple, number) >= number]


@record
class HandOutPlan:
    """The plan by which pairs are handed to one rater.

    Attributes:
        seed: The study's seed, which decides where the search for a free slot begins.
        slots: Showings per pair: raters per pair for people, orders for a model.
        lease: After this long and unrated, a presentation's slot may go to another rater.
        quota: How many of the study's pairs one person may rate; None for as many as there are.
        gold_every: One gold pair is mixed into so many of the study's; None for none.
        repeats: How many of a person's pairs are shown again later with the sides swapped.
        one_order: A model sees each pair in one order only, drawn by the seed.
        rounds: How comparisons stop after a round; None if all pairs are shown.
    """

    seed: int
    slots: int
    lease: timedelta
    quota: int | None = None
    gold_every: int | None = None
    repeats: int = 0
    one_order: bool = False
    rounds: RoundPlan | None = None


@record
class DeclaredPart:
    """People's settings or a judge's: their hash today and at the first verdict, and what changed since."""

    name: str
    hash: str
    first_hash: str | None = None
    changes: tuple[str, ...] = ()


@record
class Usage:
    """A server's statements about an answer; None for missing ones.

    `cached_tokens` are among the input's tokens and `reasoning_tokens` among the output's.
    """

    model: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
