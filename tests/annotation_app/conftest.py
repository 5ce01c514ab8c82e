"""A study behind the pages of the app, without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from app_study import Built, build, build_study, chromium, make_pair, served, shared_browser, visit  # noqa: F401
from streamlit.components.v2.component_manager import BidiComponentManager

from annotation_app import sign_in, state
from guard_eval.study.folder import Study


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare every visit the search through all installed packages for components; ours are none of those."""
    monkeypatch.setattr(
        BidiComponentManager, "discover_and_register_components", lambda *_args, **_options: None
    )


@pytest.fixture
def came_from(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say in which browser the next visits are; AppTest has none."""

    def set_origin(browser: str) -> None:
        monkeypatch.setattr(sign_in, "browser_secrets", lambda: [browser])

    set_origin("a browser")
    return set_origin


@pytest.fixture
def study(tmp_path: Path, new_database: Callable[[Path], str]) -> Callable[..., Built]:
    """Build a study in a temporary folder and point the page at it."""

    def make(number: int = 3, **options: object) -> Built:
        pairs = [make_pair(i) for i in range(number)]
        built = build(tmp_path / "study", pairs, new_database=new_database, **options)  # type: ignore[arg-type]
        state.serve_study(Study.open(built.folder))
        return built

    return make
