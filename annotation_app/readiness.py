"""What a study's raters will need, looked at before the server starts: wording, and a provider of accounts.

Knows no Streamlit: the command that starts the server asks here.
"""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

from annotation_app import wording
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.study import Study

NEEDED = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
"""What Streamlit's secrets.toml must say of the provider, in its table `[auth]`."""


def check(study: Study) -> None:
    """See that the study's wording can be shown and that its raters can sign in as it says.

    Raises:
        StudyError: The wording has errors, or the secrets.toml for `oidc = true` is missing or incomplete.
        MissingExtraError: `oidc = true`, and Authlib is not installed.
    """
    wording.of_study(study)
    if study.settings.annotation.recruitment.oidc:
        if importlib.util.find_spec("authlib") is None:
            raise MissingExtraError("oidc", "authlib")
        _check_provider([Path.home(), Path.cwd()])


def _check_provider(homes: list[Path]) -> None:
    """See that one of the places in which Streamlit looks has all it needs; the later place counts."""
    places = [home / ".streamlit" / "secrets.toml" for home in homes]
    found = [place for place in places if place.is_file()]
    if not found:
        raise StudyError(
            "annotation.recruitment.oidc = true needs the provider's data in Streamlit's secrets.toml; write "
            f"[auth] with {', '.join(NEEDED)} into {places[-1]}"
        )
    said: dict[str, object] = {}
    for place in found:
        try:
            table = tomllib.loads(place.read_text(encoding="utf-8")).get("auth", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            # Never its content: these are secrets.
            raise StudyError(f"cannot read {place} as TOML: {type(error).__name__}; mend it") from None
        said |= table if isinstance(table, dict) else {}
    missing = [key for key in NEEDED if not said.get(key)]
    if missing:
        raise StudyError(f"{found[-1]} lacks, in its table [auth]: {', '.join(missing)}; add what is missing")
