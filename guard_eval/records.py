"""The records of a study, which all packages share: prompts, texts, pairs, raters and plans.

An id is a hash of all content that identifies a record, so a repeated step changes nothing.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, Self, TypeVar, dataclass_transform

JsonObject = dict[str, Any]
"""A JSON object with values of any kind."""

Choice = Literal["A", "tie", "B"]
"""A rater's choice on a criterion: the text shown as A is better, both are similar, or B is better."""

CHOICES: tuple[Choice, ...] = ("A", "tie", "B")

RaterKind = Literal["person", "model", "simulated", "simulated_model"]
"""The kinds of raters. No statistic pools kinds. Simulated raters allow a report without real data."""

PEOPLE_OF: Mapping[str, str] = {"model": "person", "simulated_model": "simulated"}
"""The kind of people with whom each kind of judge is compared. Simulated judges have simulated people."""

SIMULATED: frozenset[str] = frozenset({"simulated", "simulated_model"})
"""The kinds of raters whose verdicts are simulated."""

PEOPLE = "people"
"""The name of the part of a study's settings that is for people, or for simulated raters in their place."""

TIE = "tie"
"""The verdict in tidy tables that prefers neither method."""

Decision = Literal["exclude", "include", "revoke", "erase"]
"""A decision of the study's owner about a rater."""

NoteKind = Literal[
    "arrival", "consent", "background", "instructions", "practice", "check", "finished",
    "comment", "problem", "skip", "conduct", Decision,
]  # fmt: skip
"""The kinds of notes about a rater: steps of a visit, remarks on a pair, the owner's decisions."""

MESSAGE_BYTES = 20_000_000
"""The largest message from the app to a browser, in bytes: the texts of a pair, as JSON."""

BILLION = 10**9
"""The number of billionths in a US dollar. Costs of requests are counted in billionths."""

Role = Literal["study", "gold", "repeat"]
"""The reason why a pair is shown, which raters cannot see. Only pairs with the role `study` give results."""


SPLITTING = frozenset({"dataset", "rater", "shown_first", "length_a", "length_b"})
"""Columns of every table of verdicts that can split results."""


def find_declared_part_of_rater(name: str, kind: str) -> str:
    """Return the part of `Study.declared` that applies to a rater: the part of people or of a judge."""
    return f"judge {name}" if kind in PEOPLE_OF else PEOPLE


def find_deciding_group(name: str, kind: str) -> str:
    """Return the group of raters who decide together which comparisons stop. A judge decides alone."""
    return kind if kind == "simulated" else find_declared_part_of_rater(name, kind)


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots. Callers must give the fields by name."""
    return dataclass(frozen=True, kw_only=True, slots=True)(cls)


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# made only once, because json.dumps makes an encoder at every call
_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def make_content_id(*parts: object) -> str:
    """Return 16 hexadecimal digits that identify `parts`, the same on every machine.

    >>> make_content_id("ab", "c") == make_content_id("a", "bc")
    False
    """
    return hash_text(_AS_JSON(parts))[:16]


@record
class Prompt:
    """A text to continue.

    Attributes:
        reference: The continuation by a human author, if it is known.
        columns: The values in the prompt's row of its file, by heading.
    """

    id: str
    dataset: str
    text: str
    reference: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)


@record
class Recipe:
    """All conditions that can change a continuation's text, except the prompt.

    Attributes:
        revision: The revision of a model from the Hub, or the hash of the files in a model's folder.
        strategy: The strategy's signature, such as `top_k(k=50)`.
        max_prompt_tokens: The largest prompt length. A longer prompt keeps only its last tokens.
        amateur: The smaller model of contrastive decoding; other strategies have none.
        engine: The engine of the model, if not transformers: `vllm`, which rounds differently.
        source: The hash of the source code of a strategy that the user wrote.
        chat_template: The settings for the chat template, as JSON.
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

    def make_continuation_id(self, prompt: Prompt, run: int = 1) -> str:
        """Return the id of the text that this recipe writes after `prompt` in its `run`th run.

        A model in a folder is identified only by its content, a model from the Hub by name and revision.
        Optional fields (amateur, chat and the settings of its template, engine, source, stop, a run after the
        first) change the id only if they are set.
        """
        models = [(self.model, self.revision), (self.amateur, self.amateur_revision)]
        model, amateur = (("" if str(at).startswith("sha256:") else name, at) for name, at in models)
        rare = {name: getattr(self, name) for name in ("chat", "chat_template", "engine", "source", "stop")}
        rare |= {"amateur": self.amateur and amateur, "run": run if run > 1 else 0}
        rare = {name: value for name, value in rare.items() if value}
        settings = *model, self.strategy, self.seed, self.max_new_tokens, self.max_prompt_tokens, self.dtype
        return make_content_id(prompt.id, prompt.text, *settings, *([rare] if rare else []))


Finish = Literal["eos", "length", "stop"]
"""Why a text ended."""


@record
class Continuation:
    """A text that a model wrote after a prompt.

    Attributes:
        prompt_tokens: The length of the prompt for the model, after truncation.
        new_tokens: The number of written tokens, including the end-of-text token or the token that completes
            a stop string.
        finish: Why the text ended: `eos` (the model ended it), `length` (the limit) or `stop` (stop string).
        seconds: The wall time of the batch, divided by the number of rows in the batch.
        batch: The number of rows in the batch, on which speed depends.
        run: The number of this text among the texts of the prompt by this recipe: 1, 2, ….
    """

    id: str
    prompt_id: str
    dataset: str
    recipe: Recipe
    text: str
    prompt_tokens: int
    new_tokens: int
    finish: Finish
    seconds: float
    batch: int
    device: str
    versions: str
    run: int = 1


HUMAN = "human"
"""The strategy of references: how people continued the prompts."""


@record
class Generation:
    """A continuation as metrics see it. Unknown values are None.

    Attributes:
        prompt_id: The prompt's id. Two strategies are compared prompt by prompt.
        dataset: The prompt's dataset.
        strategy: The text's system: a strategy's signature, or a name from the study or the file.
        text: The continuation without the prompt.
        prompt: The prompt's text.
        reference: A human's continuation of the prompt.
        tokens: The length in tokens of the model that wrote the text, with the end-of-text token.
        finish: Why the text ended: `eos` (the model ended it), `length` (the limit), `stop` (a stop string).
        seconds: Wall time of the text's batch, divided by the number of rows of the batch.
        batch: Number of rows of the text's batch.
        device: The device that generated the text.
        run: The number of the text among the texts by this strategy for the prompt.
        flaws: Replaced or missing parts of the text, such as `not UTF-8`. Every score is shown with the
            number of flawed texts.
        id: A hash of the text with its prompt, or of the recipe that generated the text; "" outside studies.
    """

    prompt_id: str
    dataset: str
    strategy: str
    text: str
    prompt: str | None = None
    reference: str | None = None
    tokens: int | None = None
    finish: Finish | None = None
    seconds: float | None = None
    batch: int | None = None
    device: str | None = None
    run: int = 1
    flaws: tuple[str, ...] = ()
    id: str = ""

    @property
    def ended(self) -> bool | None:
        """Return whether the model ended the text itself, or None if this is unknown."""
        return None if self.finish is None else self.finish == "eos"


def make_generation(continuation: Continuation, prompt: Prompt, system: str = "") -> Generation:
    """Return a continuation and its prompt as a `Generation`, with the system's name if there is one."""
    return Generation(
        id=continuation.id,
        prompt_id=prompt.id,
        dataset=prompt.dataset,
        strategy=system or continuation.recipe.strategy,
        text=continuation.text,
        prompt=prompt.text,
        reference=prompt.reference,
        tokens=continuation.new_tokens,
        finish=continuation.finish,
        seconds=continuation.seconds,
        batch=continuation.batch,
        device=continuation.device,
        run=continuation.run,
    )


@record
class Pair:
    """Two continuations of one prompt, with the methods' names, which only the store and the report see.

    Attributes:
        method_a: The first method of the study's comparison. The side on the screen is independent of it.
        position: The place of the pair after the seeded shuffle: 0, 1, …. At even places, the first showing
            has `a` first.
        for_people: Whether people rate the pair. A judge rates every pair.
        round: The round of prompts in which the pair is shown; 0 if the study has no rounds.
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
        """Return the pair's id. The same two continuations with the same method names have the same id."""
        return make_content_id("pair", method_a, method_b, continuation_a, continuation_b)


@record
class Gold:
    """A pair outside the study whose better text is known, on all criteria or only on some."""

    pair: Pair
    expected: Mapping[str, Literal["a", "b"]]


_WHITE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b"
"""The white space of Unicode, the byte order mark and the zero-width space."""


def clean_for_raters(text: str) -> str:
    r"""Return a text for raters, without invisible characters that could reveal the method.

    Line ends become `\n`, composed characters become one code point (NFC), and white space around the text is
    removed.

    >>> clean_for_raters(" cafe\u0301\r\nau lait\n")
    'café\nau lait'
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", lines).strip(_WHITE)


@record
class BlindPair:
    """The pair that a rater receives: a prompt and two texts, without the names of the methods.

    A verdict names the pair by the number `presentation`, which does not reveal methods or sides.
    """

    presentation: int
    prompt: str
    text_a: str
    text_b: str

    @classmethod
    def from_texts(cls, presentation: int, prompt: str, text_a: str, text_b: str) -> Self:
        """Return the blind pair of stored texts, cleaned for raters."""
        prompt, text_a, text_b = map(clean_for_raters, (prompt, text_a, text_b))
        return cls(presentation=presentation, prompt=prompt, text_a=text_a, text_b=text_b)


@record
class Rater:
    """A person, a model or a simulation that compares pairs."""

    id: int
    name: str
    kind: RaterKind


Couple = tuple[str, str]
"""The names of two compared systems."""


@record
class RoundPlan:
    """The plan that decides after each round of prompts which comparisons continue.

    Attributes:
        design: With `rounds`, a beaten system leaves. With `candidate`, a decided comparison stops.
        criterion: The deciding criterion.
        alpha: The largest probability that any decision is wrong.
        showings: The number of verdicts that a pair needs.
    """

    design: Literal["rounds", "candidate"]
    criterion: str
    alpha: float
    showings: int


@record
class Contest:
    """The verdicts of people, or of one judge, on the finished rounds.

    Attributes:
        plan: The plan that decides which couples continue.
        sizes: The number of prompts of each round.
        couples: The compared systems.
        done: The number of finished rounds.
        stopped: The last round of each stopped couple.
        prompts: The round of each prompt, and the scores of the couples from −1 to 1, positive for a couple's
            first system. A couple has a score only after all its ratings are in.
    """

    plan: RoundPlan
    sizes: tuple[int, ...]
    couples: tuple[Couple, ...]
    done: int
    stopped: Mapping[Couple, int]
    prompts: Sequence[tuple[int, Mapping[Couple, float]]]

    def list_active_couples(self, round_number: int) -> list[Couple]:
        """Return the couples of systems that are still compared in this round."""
        return [couple for couple in self.couples if self.stopped.get(couple, round_number) >= round_number]


@record
class HandOutPlan:
    """The plan by which pairs are handed to one rater.

    Attributes:
        seed: The study's seed, which decides where the search for a free slot begins.
        slots: Showings per pair: raters per pair for people, orders for a model.
        lease: If a presentation is not rated within this time, its slot may go to another rater.
        quota: The largest number of the study's pairs that one person may rate; None for all pairs.
        gold_every: The number of the study's pairs for each gold pair; None without gold pairs.
        repeats: The number of a person's pairs that are shown again later with swapped sides.
        one_order: A model sees each pair in only one order, which the seed decides.
        rounds: The plan for stopping comparisons after a round; None if all pairs are shown.
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
    """The settings of people or of a judge: hash today, hash at the first verdict, and changes since then."""

    name: str
    hash: str
    first_hash: str | None = None
    changes: tuple[str, ...] = ()


@record
class Usage:
    """The model and the numbers of tokens that a server reports with an answer; None for missing values.

    `cached_tokens` are part of the input tokens, and `reasoning_tokens` are part of the output tokens.
    """

    model: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
