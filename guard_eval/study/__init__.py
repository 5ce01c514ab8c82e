"""A study's folder and its settings: study.toml, every table of this file, and the paths of all parts."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from guard_eval.study.folder import Study

__all__ = ["Study"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `Study` when it is first used, so that a program of one model loads few settings."""
        if name != "Study":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from guard_eval.study.folder import Study  # noqa: PLC0415

        return Study
