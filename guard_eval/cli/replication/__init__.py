"""The paper's tables and figures: what it printed, what each needs, and the study that makes it again."""
