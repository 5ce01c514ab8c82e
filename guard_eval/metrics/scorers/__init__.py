"""The metrics. Each module computes some metrics of groups of texts."""
