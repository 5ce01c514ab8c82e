"""Scores of verdicts: of each rater, item and criterion, combined as declared, and their win shares."""
