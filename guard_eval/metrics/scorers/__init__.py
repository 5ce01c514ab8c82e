"""The metrics: each module yields its scores of groups of texts."""
