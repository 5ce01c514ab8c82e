"""A study's folder and its settings: study.toml, every table of it, and where the parts lie."""

from guard_eval.study.folder import Study

__all__ = ["Study"]
