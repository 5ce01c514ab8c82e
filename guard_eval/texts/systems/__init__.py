"""Systems, whoever wrote their texts: local models, servers, or others, whose texts come in files."""

from guard_eval.texts.systems.finding import explain_missing, find_first_texts, find_texts

__all__ = ["explain_missing", "find_first_texts", "find_texts"]
