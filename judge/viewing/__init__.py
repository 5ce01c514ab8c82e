"""The exchanges of a study with its judges, for reading: on the terminal, and as one page."""

from judge.viewing.page import ViewedPage, view
from judge.viewing.terminal import show

__all__ = ["ViewedPage", "show", "view"]
