"""What the app relies on in Streamlit and uvicorn beyond their documentation, each by name.

Where a test here fails with a new version, adapt what its message names, run all tests of the app, and raise
the bound in pyproject.toml.
"""

import inspect
import re
import tomllib
from pathlib import Path

import pytest
import streamlit
import streamlit as st
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
STATIC = Path(streamlit.__file__).with_name("static")


def lacks(what, who):
    return f"Streamlit {streamlit.__version__} lacks {what}, on which annotation_app/{who} relies"


def test_pyproject_bounds_streamlit_and_the_installed_one_is_within():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (bound,) = [one for one in map(Requirement, extras["annotate"]) if one.name == "streamlit"]
    major, minor = map(int, streamlit.__version__.split(".")[:2])
    assert bound.specifier.contains(streamlit.__version__)
    assert not bound.specifier.contains(f"{major}.{minor + 1}.0")


@pytest.mark.parametrize(
    ("function", "names", "who"),
    [
        (
            st.App,
            ["script_path", "lifespan", "routes", "middleware", "on_script_error"],
            "server.py",
        ),
        (st.components.v2.component, ["name", "js", "css", "isolate_styles"], "panel.py"),
        (st.button, ["shortcut", "on_click", "key", "type"], "markup.py"),
        (st.fragment, ["func"], "rating.py"),
        (st.container, ["horizontal", "key"], "markup.py"),
    ],
)
def test_a_function_takes_what_it_is_given(function, names, who):
    taken = inspect.signature(function).parameters
    missing = [name for name in names if name not in taken]
    assert not missing, lacks(f"{missing} of {function.__qualname__}", who)


def test_the_page_is_a_file_with_scripts_that_can_be_allowed_by_their_hash():
    from annotation_app import server

    page = (STATIC / "index.html").read_text(encoding="utf-8")
    inline = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert inline, lacks("an inline script in static/index.html", "server.py")
    # Every script is one of these, or a file of the server's own.
    assert len(re.findall(r"<script\b", page)) == len(inline) + len(
        re.findall(r'<script[^>]* src="\./', page)
    )
    assert server.HEADERS["Content-Security-Policy"].count("'sha256-") == len(inline)


@pytest.mark.parametrize(
    ("names", "who"),
    [
        (("stMain", "stMainBlockContainer", "stAppHeader", "stStatusWidget"), "page.css"),
        (("stVerticalBlock", "stLayoutWrapper", "stApp"), "page.css"),
        (("stRadio", "stForm", "stTextInput", "stTextInputRootElement", "stWidgetLabel"), "page.css"),
        (("stMain", "stBaseButton-"), "page.js"),
        (("stDialog", "data-test-connection-state", "CONNECTED"), "page.js"),
        (("st-key-",), "page.css"),
    ],
)
def test_the_pages_elements_have_the_names_that_styles_and_scripts_look_for(names, who):
    scripts = "".join(path.read_text(encoding="utf-8") for path in (STATIC / "static" / "js").glob("*.js"))
    missing = [name for name in names if name not in scripts]
    assert not missing, lacks(f"elements named {missing}", who)


def test_every_option_is_one_of_streamlits_and_the_limits_of_messages_differ():
    """uvicorn limits what comes in, and Streamlit what goes out: no rater may send what a page may hold."""
    from streamlit import config
    from streamlit.web import bootstrap

    from annotation_app import server

    for name in server.OPTIONS:
        config.get_option(name)
    assert callable(bootstrap.load_config_options)
    assert 1_000_000 * server.OPTIONS["server.maxMessageSize"] > server.INCOMING_BYTES
    # docs/deployment.md names the variable
    assert config._config_options_template["server.cookieSecret"].env_var == "STREAMLIT_SERVER_COOKIE_SECRET"
