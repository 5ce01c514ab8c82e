"""The `[annotation]` table of study.toml and the tables in it: what people are asked, and how they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from guard_eval.rubric import HUMAN_CRITERIA
from guard_eval.study.criteria_settings import CriteriaNames, Language, SettingsTable, matches
from guard_eval.study.files import GoldFile, WordingFile

WebAddress = Annotated[str, matches(r"https?://(?s:.)*", "a web address begins with https://")]
Code = Annotated[str, matches(r"[A-Za-z0-9_-]{1,64}", "a code has up to 64 letters, digits, - and _")]

PROLIFIC_COMPLETE = "https://app.prolific.com/submissions/complete?cc="
"""Where Prolific takes a participant's completion code."""


class Pages(SettingsTable):
    """Which pages a rater sees before the first pair, besides the instructions.

    All are off unless they are named: a study that has begun must not ask its raters something new because
    the program is newer. `guard-eval new` writes them into a new study.

    Attributes:
        consent: Whether to ask for consent first.
        background: Whether to ask for the language background, as raters report it themselves.
        practice: Whether to show practice pairs, with a word on each answer.
        check: Whether to ask what was understood; who fails twice rates nothing.
    """

    consent: bool = False
    background: bool = False
    practice: bool = False
    check: bool = False


class Codes(SettingsTable):
    """The codes that raters take back to the platform they came from, one for each way a visit ends.

    A way without a code ends with a message alone. A rater who was excluded sees no code at all.

    Attributes:
        completed: All that was to be done is done.
        no_place: No more people can take part: as many do as there is work for.
        ran_out: Let in, but nothing was left to rate when the first pair was due.
        screened_out: Failed the comprehension check.
        declined: Did not agree to take part.
    """

    completed: Code | None = None
    no_place: Code | None = None
    ran_out: Code | None = None
    screened_out: Code | None = None
    declined: Code | None = None

    def contradictions(self) -> Iterator[str]:
        """Yield that two endings have one code."""
        codes = list(self.model_dump(exclude_none=True).values())
        if len(set(codes)) < len(codes):
            yield "two endings have the same code and could not be distinguished; change one"


class Recruitment(SettingsTable):
    """How raters come who were not invited by name, and what they take away.

    Attributes:
        prolific: Whether people who come with Prolific's parameters in the address may rate.
        prolific_study: Prolific's id of the study; others are turned away.
        oidc: Whether people who sign in with the provider of Streamlit's secrets.toml may rate.
        codes: What a rater takes back to the platform, by how the visit ended.
        completion_url: Where to go with a code; for Prolific its own page, unless given.
    """

    prolific: bool = False
    prolific_study: Code | None = None
    oidc: bool = False
    codes: Codes = Codes()
    completion_url: WebAddress | None = None

    def contradictions(self) -> Iterator[str]:
        """Yield that Prolific's study is named, and nobody can come from there."""
        if self.prolific_study is not None and not self.prolific:
            yield "prolific_study is given, but prolific = true is not; add it"

    @property
    def is_open(self) -> bool:
        """Return whether raters can come without an invite."""
        return self.prolific or self.oidc

    def address(self, code: str) -> str | None:
        """Return where to go with `code`: Prolific's page with the code, or the study's own address."""
        return self.completion_url or (PROLIFIC_COMPLETE + code if self.prolific else None)


class Annotation(SettingsTable):
    """What people are asked, in which words, and how pairs are shared out among them.

    Attributes:
        criteria: On what two texts are compared, in this order: the paper's criteria, and the study's own.
        raters_per_pair: How many people rate each pair.
        lease_minutes: A pair that is not rated by then may go to another rater.
        pairs_per_rater: How many pairs one rater rates at most; None for as many as there are.
        gold_every: One gold pair is mixed into so many others; None for none.
        gold: A file in the study's folder with gold pairs, whose better text is known: a JSON object a line
            with "prompt", "better" and "worse", and "criteria" if not all are clear.
        repeats: How many of a rater's own pairs are shown again later, with the sides swapped.
        language: In which of the shipped languages the app speaks.
        wording: A TOML file in the study's folder whose words replace those of the language.
        pages: What is shown before the first pair.
        recruitment: How raters come who were not invited by name.
    """

    criteria: CriteriaNames = Field(default=list(HUMAN_CRITERIA), min_length=1)
    raters_per_pair: int = Field(default=4, ge=1, le=1000)
    lease_minutes: float = Field(default=30, gt=0, le=525_600)
    pairs_per_rater: int | None = Field(default=None, ge=1)
    gold_every: int | None = Field(default=None, ge=1)
    gold: GoldFile | None = None
    repeats: int = Field(default=0, ge=0)
    language: Language = "en"
    wording: WordingFile | None = None
    pages: Pages = Pages()
    recruitment: Recruitment = Recruitment()
