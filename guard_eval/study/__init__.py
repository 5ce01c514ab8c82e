"""A study's folder and its settings: study.toml, every table of this file, and the paths of all parts."""

from guard_eval.study.folder import Study

__all__ = ["Study"]
