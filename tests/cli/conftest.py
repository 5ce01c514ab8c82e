"""Studies for the tests of the command line."""

from cli_study import paired, paired_once, run, study, typed  # noqa: F401
