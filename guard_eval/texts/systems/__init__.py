"""Systems, whose texts come from local models, from servers, or from files."""

from guard_eval.texts.systems.finding import explain_missing_texts, find_first_texts_of_systems, find_texts

__all__ = ["explain_missing_texts", "find_first_texts_of_systems", "find_texts"]
