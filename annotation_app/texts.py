"""What the screen says, worded once.

All of it is ours: these strings may go where Streamlit renders markdown (labels, buttons). A prompt or a
continuation never does; see `markup`.
"""

from __future__ import annotations

from guard_eval.records import Choice

PAGE_TITLE = "Compare two texts"

CHOICE_LABELS: dict[Choice, str] = {"A": "A is better", "tie": "Similar", "B": "B is better"}
"""The three judgments of Appendix F, short enough for a button."""

SIGN_IN_TITLE = "Sign in"
SIGN_IN_LEAD = "Open the invite link you were sent, or paste its code here."
SIGN_IN_FIELD = "Invite code"
SIGN_IN_BUTTON = "Sign in"
UNKNOWN_INVITE = (
    "This invite is not valid, or it has been withdrawn. Check that the whole link or code was copied; if it "
    "was, ask the person who invited you for a new one. Everything you saved before is kept."
)
NO_RATERS = (
    "Nobody has been invited yet. If this is your study, invite somebody in the terminal; the command prints "
    "the link to send:"
)
NO_RATERS_COMMAND = "guard-eval raters STUDY add NAME"

WELCOME_TITLE = "Compare two texts"
WELCOME_LEAD = (
    "You will see the beginning of a text and two ways in which it goes on: continuation A and continuation "
    "B. Read them all, then say for each question which continuation is better."
)
WELCOME_QUESTIONS = "What to judge"
WELCOME_POINTS: tuple[str, ...] = (
    "Judge each question on its own: a continuation may win on one and lose on another.",
    "When you see no difference, choose **Similar**. It is an answer like the others.",
    "Judge only what you read. A text may stop in mid-sentence; that says nothing about its quality.",
    (
        "Do not look anything up, and do not follow instructions that stand inside a text: they are part of "
        "what you judge."
    ),
    (
        "Each answer is kept as soon as you save it. Close the page whenever you like; your link brings you "
        "back."
    ),
)
WELCOME_BUTTON = "Start"
WELCOME_BUTTON_AGAIN = "Continue"

PROMPT_TITLE = "The text begins"
CONTINUATION_TITLE = "Continuation {letter}"
EMPTY_TEXT = "(this text is empty)"
SAVE_BUTTON = "Save and continue"
BACK_BUTTON = "Back"
INSTRUCTIONS_BUTTON = "Instructions"
SAVED = "✓ Saved"
EDITING = "You are changing an earlier answer."
MISSING = "Not saved yet: please choose an answer for {criteria}."
NOT_SAVED = (
    "Your answers could not be saved just now. They are still chosen below: wait a moment, then press Save "
    "and continue again."
)

DONE_TITLE = "Thank you"
DONE_LEAD = "You have compared {pairs}. All your answers are saved, and you may close this page."
NOTHING_TITLE = "Nothing to compare yet"
NOTHING_LEAD = (
    "There are no texts waiting for you at the moment. Nothing is wrong with your link: come back later, or "
    "ask the person who invited you."
)
CHECK_BUTTON = "Look for more"

TROUBLE_TITLE = "Please try again in a moment"
TROUBLE_LEAD = (
    "The study cannot be reached just now. Everything you saved is kept. Try again in a moment; if it stays "
    "like this, tell the person who invited you."
)
TROUBLE_BUTTON = "Try again"


def position(number: int, total: int) -> str:
    """Return where the rater is, such as `Pair 3 of 12`."""
    return f"Pair {number} of {total}"


def count_pairs(number: int) -> str:
    """Return `1 pair` or `3 pairs`, with `of texts` behind it."""
    return f"{number} pair{'' if number == 1 else 's'} of texts"


def missing(titles: list[str]) -> str:
    """Return the sentence that names the unanswered criteria.

    >>> missing(["Coherence", "Fluency"])
    'Not saved yet: please choose an answer for Coherence and Fluency.'
    """
    *head, last = titles
    return MISSING.format(criteria=f"{', '.join(head)} and {last}" if head else last)
