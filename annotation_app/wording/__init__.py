"""What the screen says: one file per language, and a study's own file over it."""

from annotation_app.wording.loading import fill, load, of_study, placeholders
from annotation_app.wording.values import BackgroundQuestion, PracticePair, Problems, Question, Wording

__all__ = [
    "BackgroundQuestion",
    "PracticePair",
    "Problems",
    "Question",
    "Wording",
    "fill",
    "load",
    "of_study",
    "placeholders",
]
