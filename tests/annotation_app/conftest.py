"""A study behind the pages of the app: without a server, or served to Chromium."""

from contextlib import ExitStack

import pytest
from app_browser import DESKTOP, ServedStudy, serve_study
from app_study import (  # noqa: F401
    BuiltStudy,
    build_hostile_study,
    build_study,
    chromium,
    make_pair,
    served,
    shared_browser,
    visit,
)
from streamlit.components.v2.component_manager import BidiComponentManager

from annotation_app import sign_in, state
from guard_eval.study.folder import Study


@pytest.fixture(autouse=True)
def no_search(monkeypatch):
    """Skip Streamlit's search for components in all installed packages, which is slow."""
    monkeypatch.setattr(
        BidiComponentManager, "discover_and_register_components", lambda *_args, **_options: None
    )


@pytest.fixture
def came_from(monkeypatch):
    """Return a function that sets the browser of the next visits, because AppTest has no cookies."""

    def set_origin(browser):
        monkeypatch.setattr(sign_in, "read_browser_secrets", lambda: [browser])

    set_origin("a browser")
    return set_origin


@pytest.fixture
def study(tmp_path, new_database):
    """Build a study in a temporary folder and point the page at it."""
    stores = []

    def make(number=3, **options):
        pairs = [make_pair(i) for i in range(number)]
        built = build_study(tmp_path / "study", pairs, new_database=new_database, **options)
        stores.append(state.serve_study(Study.open(built.folder)).store)
        return built

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def serve(tmp_path):
    """Serve a study of short texts until the test ends. Check that the log has no secret and no exception."""
    log = tmp_path / "log"
    with ExitStack() as stack:

        def begin(number=1, *, most_files=0, **options):
            built = build_hostile_study(
                tmp_path / "study", number=number, hostile=("marigold x", "thistle y"), **options
            )
            return ServedStudy(
                built, stack.enter_context(serve_study(built.folder, log, most_files=most_files))
            )

        yield begin
    logged = log.read_text()
    unwanted = ("CODE-", "ann-id", "invite=", "Traceback", "message left out")
    assert not [text for text in unwanted if text in logged]


@pytest.fixture
def browse(chromium):  # noqa: F811
    """Open an empty page in a new browser."""
    contexts = []

    def open_page(**options):
        contexts.append(chromium.new_context(**{**DESKTOP, **options}))
        contexts[-1].set_default_timeout(15_000)
        return contexts[-1].new_page()

    yield open_page
    for context in contexts:
        context.close()
