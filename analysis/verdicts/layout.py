"""The columns of a tidy table of verdicts."""

REQUIRED = ("pair_id", "dataset", "method_a", "method_b", "rater", "criterion", "verdict")
TEXTS = (*REQUIRED, "prompt_id", "rater_kind", "presentation", "slot", "shown_first", "at")
NUMBERS = ("seconds", "active_seconds", "ends_seen", "length_a", "length_b")
KNOWN = frozenset((*TEXTS, *NUMBERS))
REMARKS = "remarks"
"""In a table's `attrs`: what its reader must be warned of, sentences that name the lines."""
