"""Read a study's folder: check the settings in study.toml, and find the study's files."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from guard_eval.study.folder import Study

__all__ = ["Study"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `Study` when it is first used. A program without a study then loads fewer modules."""
        if name != "Study":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from guard_eval.study.folder import Study  # noqa: PLC0415

        return Study
