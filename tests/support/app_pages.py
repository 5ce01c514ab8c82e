"""The annotation app without a browser: the words of its pages, and the data that the panel receives."""

import json
from pathlib import Path

from streamlit.testing.v1 import AppTest

import annotation_app
from guard_eval.study.wording import fill_placeholders

PAGE = str(Path(annotation_app.__file__).parent / "main.py")


def open_page(token="", *, run=True, **parameters):
    """Open the page by an invite link or without one. With `run=False`, only prepare the page."""
    page = AppTest.from_file(PAGE, default_timeout=20)
    for name, value in {**({"invite": token} if token else {}), **parameters}.items():
        page.query_params[name] = value
    return page.run() if run else page


def read_words(page):
    """Return the words of a page before or after the rating."""
    assert not page.exception
    return "\n".join(element.value for element in page.get("html") if not element.value.startswith("<style"))


def press_button(page, key):
    """Press a button of a page before or after the rating."""
    return page.button(key=key).click().run()


def open_first_pair(built, name="ann"):
    """Sign in, and close the instructions."""
    return press_button(open_page(built.tokens[name]), "start")


def find_panel(page):
    """Return the panel's element, or None if another page is shown."""
    assert not page.exception
    result = [element.proto for element in page.get("bidi_component")]
    return next((proto for proto in result if proto.component_name == "guard_eval_pair"), None)


def read_panel_data(page):
    """Return the data that the panel shows."""
    proto = find_panel(page)
    assert proto is not None, read_words(page)
    (data,) = json.loads(proto.json)
    where = fill_placeholders(data["where"], number=data["done"] + 1, total=data["total"])  # as panel.js does
    return {**data, "where": where}


def send_event(page, event, value):
    """Send an event with a value, as the panel in the browser does."""
    states = page._tree.get_widget_states()  # AppTest does not support components
    states.widgets.add(
        id=f"$$STREAMLIT_INTERNAL_KEY_{find_panel(page).id}__events",
        json_trigger_value=json.dumps([{"event": event, "value": value}]),
    )
    return page._run(states)


def go_to_page(page, to):
    """Go to another pair without saving."""
    return send_event(page, "turn", {"pair": read_panel_data(page)["pair"], "to": to})


def save_choices(page, *choices, **more):
    """Press Save with one choice per criterion. None leaves a criterion without a choice."""
    current = read_panel_data(page)
    names = [criterion["name"] for criterion in current["criteria"]]
    answers = {name: choice for name, choice in zip(names, choices, strict=True) if choice is not None}
    return send_event(page, "submit", {"pair": current["pair"], "press": "one", "choices": answers, **more})
