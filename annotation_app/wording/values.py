"""A language's wording as values: a table of the file is a class here, and a key an attribute."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from guard_eval.records import Choice
from guard_eval.rubric import CRITERIA, Criterion, check_name

Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""What is stored in place of the words: the same in every language."""


def _known(info: ValidationInfo) -> list[str]:
    """Return the criteria that the study can name: the paper's, and those the context of validation has."""
    return list(dict.fromkeys((*CRITERIA, *(info.context or ()))))


def _known_criteria(words: dict[str, CriterionWords], info: ValidationInfo) -> dict[str, CriterionWords]:
    known = _known(info)
    for verb, names in (("lacks", set(known) - words.keys()), ("names", words.keys() - set(known))):
        if names:
            raise ValueError(
                f"it {verb} {', '.join(sorted(names))}; word exactly these criteria: {', '.join(known)}"
            )
    return words


class _Words(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Page(_Words):
    """What the browser's tab says."""

    title: Text


class Notice(_Words):
    """A page with nothing to do but, perhaps, to press a button."""

    title: Text
    lead: Text


class SignIn(Notice):
    """Where an invite is entered, and what is wrong with one."""

    field: Text
    button: Text
    unknown: Text
    uninvited: Text
    prolific: Text
    elsewhere: Text
    other_browser: Text
    crowded: Text
    account: Text
    account_trouble: Text


class Consent(Notice):
    """What a rater agrees to."""

    points: tuple[Text, ...]
    contact: Text
    agree: Text
    decline: Text


class ButtonNotice(Notice):
    """A page with a heading, a paragraph and a button."""

    button: Text


class BackgroundQuestion(_Words):
    """A question on the rater: with answers to choose from, or without, for a line of text."""

    name: Name
    ask: Text
    answers: dict[Name, Text] = Field(default={})


class Background(ButtonNotice):
    """What is asked about the rater."""

    questions: tuple[BackgroundQuestion, ...]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _once("questions", [question.name for question in self.questions])
        return self


class Instructions(Notice):
    """The task and the rubric."""

    questions: Text
    points: tuple[Text, ...]
    link: Text
    link_lead: Text
    start: Text
    again: Text


class PracticePair(_Words):
    """A pair of our own with a clear answer, and why, on some of the criteria."""

    name: Name
    prompt: Text
    a: Text
    b: Text
    expected: dict[Name, Choice]
    because: dict[Name, Text]

    @model_validator(mode="after")
    def _explained(self, info: ValidationInfo) -> Self:
        if not self.expected or self.expected.keys() != self.because.keys():
            raise ValueError("expected and because must name the same criteria, and at least one")
        for name in self.expected:
            check_name(name, _known(info))
        return self


class Practice(_Words):
    """Pairs to practise on, and the feedback on each answer."""

    position: Text
    answers: Text
    agreed: Text
    differed: Text
    button: Text
    last: Text
    pairs: tuple[PracticePair, ...]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _once("pairs", [pair.name for pair in self.pairs])
        return self


class Question(_Words):
    """A question on the instructions with one right answer."""

    name: Name
    ask: Text
    answers: dict[Name, Text]
    right: Name
    because: Text

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if len(self.answers) < 2:
            raise ValueError("a question needs at least two answers")
        if self.right not in self.answers:
            names = ", ".join(self.answers)
            raise ValueError(f"right = {self.right!r} is none of its answers; choose from: {names}")
        return self


class Check(ButtonNotice):
    """The comprehension check."""

    instructions: Text
    missing: Text
    wrong_title: Text
    wrong_lead: Text
    retry: Text
    questions: tuple[Question, ...]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _once("questions", [question.name for question in self.questions])
        return self


class Rating(_Words):
    """What the server says on the page on which a pair is compared."""

    position: Text
    saved: Text
    not_saved: Text
    skipped: Text
    skipped_many: Text


class PanelWords(_Words):
    """The words of the page on which a pair is compared; all of them go to the browser."""

    a_better: Text = Field(alias="A")
    similar: Text = Field(alias="tie")
    b_better: Text = Field(alias="B")
    prompt: Text
    side: Text
    empty: Text
    questions: Text
    definition: Text
    save: Text
    back: Text
    latest: Text
    instructions: Text
    earlier: Text
    missing: Text
    answered: Text
    saving: Text
    slow: Text
    away: Text
    remark: Text
    remarked: Text
    comment: Text
    report: Text
    skip: Text
    skip_first: Text
    keys: Text
    pause: Text = Field(alias="break")
    break_title: Text
    break_lead: Text
    break_end: Text
    elsewhere_title: Text
    elsewhere_lead: Text
    elsewhere_end: Text

    def choice(self, choice: Choice) -> str:
        """Return what a choice is called."""
        return {"A": self.a_better, "tie": self.similar, "B": self.b_better}[choice]


class Problems(_Words):
    """What a rater can report of a pair, by the name under which it is stored."""

    unreadable: Text
    language: Text
    offensive: Text
    display: Text


class Done(_Words):
    """The thanks, and the completion code."""

    title: Text
    one: Text
    many: Text
    code: Text
    link: Text
    again: Text


class CriterionWords(_Words):
    """A criterion in this language."""

    title: Text
    definition: Text


class Wording(_Words):
    """Everything a rater reads, in one language.

    Attributes:
        language: The page's language, as HTML names it.
        direction: `rtl` mirrors the page.
    """

    language: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")]
    direction: Literal["ltr", "rtl"]
    page: Page
    sign_in: SignIn
    consent: Consent
    declined: ButtonNotice
    background: Background
    instructions: Instructions
    practice: Practice
    check: Check
    failed: Notice
    rating: Rating
    panel: PanelWords
    problems: Problems
    done: Done
    nothing: Notice
    waiting: ButtonNotice
    full: ButtonNotice
    ran_out: Notice
    ended: Notice
    trouble: ButtonNotice
    criteria: Annotated[dict[str, CriterionWords], AfterValidator(_known_criteria)]

    def rubric(self, names: tuple[str, ...]) -> tuple[Criterion, ...]:
        """Return the named criteria in this language, in the order given."""
        return tuple(
            Criterion(name=name, title=self.criteria[name].title, definition=self.criteria[name].definition)
            for name in names
        )


def _once(what: str, names: list[str]) -> None:
    # A list that is empty because its items were refused is reported before.
    if not names:
        raise ValueError(f"{what} has nothing in it; to leave the page out, switch it off in study.toml")
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(f"the name {repeated[0]!r} is used twice; give each its own")
