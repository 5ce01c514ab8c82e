"""Fixtures of the stories: an owner's folder, a served study, and a browser."""

from app_study import chromium, served, shared_browser, visit  # noqa: F401
from cli_study import paired, paired_once, run, study, typed  # noqa: F401
