"""A study behind the pages of the app: without a server, or served to Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from app_browser import DESKTOP, Served, serving
from app_study import Built, build, build_hostile, chromium, make_pair, served, shared_browser, visit  # noqa: F401
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
        monkeypatch.setattr(sign_in, "read_browser_secrets", lambda: [browser])

    set_origin("a browser")
    return set_origin


@pytest.fixture
def study(tmp_path: Path, new_database: Callable[[Path], str]) -> Iterator[Callable[..., Built]]:
    """Build a study in a temporary folder and point the page at it."""
    stores = []

    def make(number: int = 3, **options: object) -> Built:
        pairs = [make_pair(i) for i in range(number)]
        built = build(tmp_path / "study", pairs, new_database=new_database, **options)  # type: ignore[arg-type]
        stores.append(state.serve_study(Study.open(built.folder)).store)
        return built

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serve a study of short texts until the test ends; no secret and no exception of it is logged."""
    log = tmp_path / "log"
    with ExitStack() as stack:

        def begin(number: int = 1, *, most_files: int = 0, **options: object) -> Served:
            built = build_hostile(
                tmp_path / "study", number=number, hostile=("marigold x", "thistle y"), **options
            )
            return Served(built, stack.enter_context(serving(built.folder, log, most_files=most_files)))

        yield begin
    logged = log.read_text()
    unwanted = ("CODE-", "ann-id", "invite=", "Traceback", "message left out")
    assert not [text for text in unwanted if text in logged]


@pytest.fixture
def browse(chromium: Any) -> Iterator[Callable[..., Any]]:  # noqa: F811
    """Open an empty page in a browser of its own."""
    contexts = []

    def open_page(**options: object) -> Any:
        contexts.append(chromium.new_context(**{**DESKTOP, **options}))
        contexts[-1].set_default_timeout(15_000)
        return contexts[-1].new_page()

    yield open_page
    for context in contexts:
        context.close()
