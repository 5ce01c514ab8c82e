"""The paper's tables and figures, made again: its experiments as studies, its figures as data."""
