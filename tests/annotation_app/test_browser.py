"""Real raters' sessions in Chromium, against the real server."""

from functools import partial

import pytest
from app_browser import (
    FIRST_WORD,
    HOSTILE,
    LONG,
    PHONE,
    SECOND_WORD,
    PageTraffic,
    choose_answer,
    choose_texts,
    close_instructions,
    count_chosen_answers,
    find_accessibility_faults,
    measure_contrast,
    press_button,
    read_heading,
    save_answers,
    serve_study,
    wait_for_next_page,
)
from app_study import make_pair

pytestmark = pytest.mark.browser


def press_keys(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def find_radio(page, criterion, answer):
    return page.get_by_role("radiogroup", name=criterion).get_by_role("radio", name=answer)


def test_hostile_texts_are_shown_but_not_run(served, visit):
    page = visit("cas")
    wire = PageTraffic(page, served.url)
    while HOSTILE[:20] not in page.locator(".ge-sides").inner_text():
        choose_texts(page, coherence="Similar", fluency="Similar")
        save_answers(page)
    texts_shown = page.locator(".ge-text", has_text=FIRST_WORD)
    assert texts_shown.inner_text().strip() == HOSTILE.replace("\x00", "\ufffd").replace("\ud83d", "\ufffd")
    assert page.locator(".ge-text :not(.ge-end)").count() == 0
    assert page.title() == "Compare two texts"
    assert wire.foreign == []
    long = page.locator(".ge-text", has_text=SECOND_WORD)
    assert len(long.inner_text()) == len(LONG.strip())
    # Each paragraph finds its own direction.
    assert long.evaluate("box => getComputedStyle(box).unicodeBidi") == "plaintext"
    # However long the texts: they scroll inside their boxes, and all else is in sight.
    assert long.evaluate("box => box.scrollHeight > 10 * box.clientHeight")
    assert page.locator(".ge-page").evaluate("page => page.scrollHeight <= page.clientHeight")


def test_the_panel_fits_the_screen_and_works_without_a_server(served, visit):
    page = visit("")
    wire = PageTraffic(page, served.url)
    headers = page.goto(served.link("dan")).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    close_instructions(page)
    assert page.locator(".ge-page").evaluate("page => page.scrollHeight <= page.clientHeight")
    for element in page.locator(".ge-text, .ge-question, .ge-bar, .ge-page button:visible").all():
        spot = element.bounding_box()
        assert 0 <= spot["y"] < spot["y"] + spot["height"] <= 900
    script = "const s = document.createElement('script'); s.text = 'window.ran = 1'; document.body.append(s)"
    assert page.evaluate(f"() => {{ {script}; return window.ran; }}") is None

    page.wait_for_timeout(200)
    sent = wire.sent
    for criterion, answer in (("Coherence", "A is better"), ("Coherence", "Similar"), ("Fluency", "Similar")):
        choose_answer(page, criterion, answer)
    page.wait_for_timeout(200)
    assert wire.sent == sent
    assert count_chosen_answers(page) == 2

    # A double click is one answer.
    before = read_heading(page)
    page.get_by_role("button", name="Save and continue").dblclick()
    wait_for_next_page(page, before)
    page.wait_for_timeout(300)
    assert served.revisions("dan") == 2
    assert read_heading(page) == "Pair 2 of 5"


def test_a_pair_can_be_rated_by_keyboard_alone(served, visit):
    page = visit("eve")
    # A new page is announced: the focus is on its heading.
    page.wait_for_function("() => document.activeElement.tagName === 'H1'")
    press_keys(page, "Enter")
    page.get_by_role("alert").get_by_text("please choose an answer for Coherence and Fluency.").wait_for()
    press_keys(page, "1")
    page.get_by_role("status").get_by_text("Coherence: A is better").wait_for()
    press_keys(page, "2", "Enter")
    wait_for_next_page(page, "Pair 1 of 5")
    page.get_by_role("status").get_by_text("✓ Saved").wait_for()
    assert served.revisions("eve") == 2
    # Of the same press nothing is left for the new pair.
    assert count_chosen_answers(page) == 0
    # An arrow key chooses, and the keys stay with its question.
    find_radio(page, "Coherence", "A is better").focus()
    press_keys(page, "ArrowRight", "3")
    assert find_radio(page, "Coherence", "B is better").is_checked()
    assert count_chosen_answers(page) == 1
    press_keys(page, "Backspace")
    wait_for_next_page(page, "Pair 2 of 5")
    assert find_radio(page, "Coherence", "A is better").is_checked()
    # The first criterion is the one that the keys answer; Tab and arrow keys reach the other.
    press_keys(page, "3")
    find_radio(page, "Fluency", "Similar").focus()
    press_keys(page, "ArrowLeft", "Control+Enter")
    wait_for_next_page(page, "Pair 1 of 5")
    assert served.revisions("eve") == 4


def test_keys_work_after_a_click_but_not_in_text_fields(served, visit):
    page = visit("fay")
    choose_answer(page, "Coherence", "Similar")
    # After a click the keys go on with what is not answered yet.
    press_keys(page, "3")
    assert find_radio(page, "Fluency", "B is better").is_checked()
    press_button(page, "Comment or problem")
    page.keyboard.type("1 or 2\n")
    press_keys(page, "Backspace")
    assert page.get_by_label("Comment on this pair").input_value() == "1 or 2"
    press_button(page, "Keys 1 2 3")
    press_keys(page, "1")
    assert find_radio(page, "Fluency", "B is better").is_checked()
    page.reload()
    page.get_by_role("button", name="Keys 1 2 3", pressed=False).click()
    page.get_by_role("heading", name="Pair 1 of 5").click()
    press_keys(page, "2")
    assert count_chosen_answers(page) == 2


KEYS = [
    ({"key": "&", "code": "Digit1"}, "A is better"),  # French
    ({"key": "é", "code": "Digit2"}, "Similar"),
    ({"key": "3", "code": "Digit3", "shiftKey": True}, "B is better"),
    ({"key": "+", "code": "Digit1"}, "A is better"),  # Czech
    ({"key": "٢", "code": "Digit2"}, "Similar"),  # Arabic
    ({"key": "3", "code": "Numpad3"}, "B is better"),
    ({"key": "1", "code": "KeyQ"}, "A is better"),  # a keyboard of its own
    ({"key": "4", "code": "Digit1"}, None),
    ({"key": "!", "code": "Digit1", "shiftKey": True}, None),
    ({"key": "End", "code": "Numpad1"}, None),
    ({"key": "1", "code": "Digit1", "ctrlKey": True}, None),
    ({"key": "1", "code": "Digit1", "altKey": True}, None),
    ({"key": "1", "code": "Digit1", "metaKey": True}, None),
    ({"key": "1", "code": "Digit1", "isComposing": True}, None),
]
PRESS_KEY = """(page, key) => page.dispatchEvent(
  new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...key }))"""


def test_digit_keys_answer_on_every_keyboard_layout(visit):
    page = visit("gil")
    form = page.locator(".ge-page")
    for key, answer in KEYS:
        find_radio(page, "Fluency", "Similar").focus()
        find_radio(page, "Coherence", "Similar").focus()
        form.evaluate("page => page.querySelectorAll(':checked').forEach(input => { input.checked = false })")
        form.evaluate(PRESS_KEY, key)
        chosen_answers = [name for name in ("A is better", "Similar", "B is better") if is_chosen(page, name)]
        assert chosen_answers == ([answer] if answer else []), key


def is_chosen(page, answer):
    return find_radio(page, "Coherence", answer).is_checked()


def test_texts_reach_raters_unchanged(visit):
    """Browsers must not translate texts and comments, link numbers in them or mark mistakes."""
    page = visit("ida")
    press_button(page, "Comment or problem")
    assert page.evaluate("document.documentElement.translate") is False
    texts = page.locator(".ge-text, #ge-comment").all()
    assert len(texts) == 4
    for text in texts:
        attributes = text.evaluate("text => [text.translate, text.spellcheck, text.lang, text.dir]")
        assert attributes == [False, False, "", "auto"]
        assert "notranslate" in text.get_attribute("class")
        style = text.evaluate(
            "text => { const s = getComputedStyle(text); return [s.textTransform, s.hyphens]; }"
        )
        assert style == ["none", "manual"]


LONG_PROMPT = "The committee met again in the spring, when the ice had gone from the harbour. " * 14


@pytest.mark.parametrize("prompt", ["One sentence.", LONG_PROMPT])
def test_a_large_screen_leaves_no_gap_below_the_texts(serve, browse, prompt, monkeypatch):
    """The questions follow the texts directly, and a long prompt is shown completely if there is room."""
    monkeypatch.setattr("app_study.make_pair", partial(make_pair, prompt=prompt))
    served = serve(1)
    page = browse(viewport={"width": 1920, "height": 1080})
    page.goto(served.link("ann"))
    close_instructions(page)
    sides, questions = (page.locator(name).bounding_box() for name in (".ge-sides", ".ge-questions"))
    assert questions["y"] - (sides["y"] + sides["height"]) < 24
    assert sides["height"] < 400
    assert page.locator(".ge-side").first.bounding_box()["height"] == sides["height"]
    assert page.locator(".ge-prompt .ge-text").evaluate("text => text.scrollHeight - text.clientHeight") <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_scrolling_text_shows_that_more_follows(served, visit, scheme):
    page = visit("pam", color_scheme=scheme)
    while SECOND_WORD + " word" not in page.locator(".ge-sides").inner_text():
        choose_texts(page, coherence="Similar", fluency="Similar")
        save_answers(page)
    long = page.locator(".ge-side", has_text=SECOND_WORD)
    more = long.get_by_text("More below")
    more.wait_for()
    assert measure_contrast(page, ".ge-more:not([hidden])") >= 4.5
    assert page.get_by_text("More below").count() == 3
    assert sum(hint.is_visible() for hint in page.get_by_text("More below").all()) == 1
    long.locator(".ge-text").evaluate("text => text.scrollTo(0, text.scrollHeight)")
    more.wait_for(state="hidden")


def test_a_first_visit_loads_no_icon_font(served, browse):
    page, loaded = browse(), []
    page.on("response", lambda answer: loaded.append(answer.url))
    page.goto(served.link("jan"))
    close_instructions(page)
    page.wait_for_timeout(500)
    fonts = [url.rpartition("/")[2] for url in loaded if ".woff2" in url]
    assert [name for name in fonts if not name.startswith("SourceSans")] == []


# A page that stays empty says so.


def break_websocket(page):
    page.route_web_socket("**/_stcore/stream", lambda socket: socket.close())


def forbid_websocket(page):
    page.add_init_script("window.WebSocket = class { constructor() { throw new Error('forbidden') } }")


def block_script(page):
    page.route("**/static/js/index*", lambda route: route.abort())


@pytest.mark.parametrize("break_page", [break_websocket, forbid_websocket, block_script])
def test_a_message_appears_if_the_page_fails_to_load(served, browse, break_page):
    page = browse()
    break_page(page)
    page.goto(served.link("kay"), wait_until="commit")
    page.get_by_role("alert").get_by_text("This page is still loading. If it stays empty").wait_for()
    assert find_accessibility_faults(page) == []


@pytest.mark.parametrize(
    ("width", "height", "letters"), [(360, 640, 16), (390, 664, 16), (844, 390, 16), (360, 640, 32)]
)
def test_a_small_screen_shows_whole_texts_and_scrolls(visit, width, height, letters):
    """Texts are shown completely, because a text that scrolls in a box could look complete."""
    page = visit("rex", **{**PHONE, "viewport": {"width": width, "height": height}})
    page.add_style_tag(content=f"html {{ font-size: {letters}px !important; }}")
    whole = page.locator(".ge-page")
    assert whole.evaluate("page => page.scrollWidth") <= width
    assert whole.evaluate("page => page.scrollHeight > page.clientHeight")
    for text in page.locator(".ge-text").all():
        assert text.evaluate("box => box.scrollHeight <= box.clientHeight")
    last = page.locator(".ge-side").last.bounding_box()
    assert page.locator(".ge-questions").bounding_box()["y"] >= last["y"] + last["height"]
    for button in page.locator(".ge-foot button, .ge-answer").all():
        spot = button.bounding_box()
        assert spot["height"] >= 44 or "quiet" in button.get_attribute("class")
        assert 0 <= spot["x"] <= spot["x"] + spot["width"] <= width
    answers = [answer.bounding_box() for answer in page.locator(".ge-answer").all()]
    assert len({round(box["width"]) for box in answers}) == 1  # A and B look alike
    assert page.get_by_role("button", name="Save and continue").bounding_box()["y"] < height


def test_scrolling_to_the_end_of_texts_is_recorded(served, visit):
    """The first pair is rated without scrolling, the second one after every text was scrolled to its end."""
    page = visit("sue", **{**PHONE, "viewport": {"width": 390, "height": 664}})
    for scrolls in (False, True):
        before = read_heading(page)
        if scrolls:
            for text in page.locator(".ge-text").all():
                text.evaluate("box => box.scrollIntoView({ block: 'end' })")
                page.mouse.wheel(0, 120)
                page.wait_for_timeout(100)
        for criterion in ("Coherence", "Fluency"):
            # A click by script does not scroll to the button.
            find_radio(page, criterion, "Similar").evaluate("radio => radio.click()")
        press_keys(page, "Control+Enter")
        wait_for_next_page(page, before)
    seen = {row.presentation: row.ends_seen for row in served.built.stored("history") if row.rater == "sue"}
    assert [*seen.values()][-1] == 3
    assert [*seen.values()][-2] < 3


def test_time_counts_only_while_the_rater_is_active(served, visit):
    # A browser of its own, for its clock is ours.
    page = visit("", color_scheme="light")
    page.clock.install()
    page.goto(served.link("gus"))
    close_instructions(page)
    page.clock.fast_forward(10_000)
    page.mouse.move(5, 5)
    # Nothing moves for 100 s: of them the first 30 count as reading.
    page.clock.fast_forward(100_000)
    page.mouse.move(6, 6)
    # Another window is in front.
    page.evaluate("document.hasFocus = () => false; window.dispatchEvent(new Event('blur'))")
    page.clock.fast_forward(20_000)
    page.evaluate("document.hasFocus = () => true; window.dispatchEvent(new Event('focus'))")
    # What was measured so far survives a refresh.
    page.reload()
    page.get_by_role("button", name="Save and continue").wait_for()
    choose_texts(page, coherence="Similar", fluency="Similar")
    served.built.age()  # the server's clock did not run ahead
    save_answers(page)
    (row, _) = [row for row in served.built.stored("history") if row.rater == "gus"]
    assert 130 <= row.seconds < 190
    assert 40 <= row.active_seconds < 90


def test_the_back_button_of_the_browser_stays_in_the_study(served, visit):
    page = visit("tim")
    choose_texts(page, coherence=FIRST_WORD, fluency="Similar")
    save_answers(page)
    for expected in ("Pair 1 of 5", "Pair 1 of 5"):
        page.evaluate("history.back()")
        page.get_by_role("heading", name=expected).wait_for()
    assert page.url == served.link("tim")
    press_button(page, "To the newest pair")
    page.get_by_role("heading", name="Pair 2 of 5").wait_for()
    press_button(page, "Instructions")
    page.get_by_role("heading", name="Compare two texts").wait_for()
    page.evaluate("history.back()")
    page.wait_for_timeout(300)
    assert read_heading(page) == "Compare two texts"


# What a rater sees, and what is kept, when something breaks under their hands.


def test_answers_chosen_before_a_restart_can_be_saved(served, visit, tmp_path):
    page, reading = visit(""), visit("")
    with serve_study(served.built.folder, tmp_path / "log") as url:
        # Two raters: of one rater's tabs either may send again what was pressed.
        for tab, name in ((reading, "una"), (page, "kim")):
            tab.goto(served.link(name).replace(served.url, url))
            tab.get_by_role("button", name="Start").wait_for()
        close_instructions(page)
        choose_answer(page, "Coherence", "Similar")
    away = reading.get_by_role("alert").get_by_text("The study cannot be reached just now")
    away.wait_for()
    assert measure_contrast(reading, ".stMain button p") >= 4.5  # Streamlit disables it meanwhile
    # What Streamlit says after it has given up; it writes over it when it is connected again.
    state = "app => { app.dataset.testConnectionState = 'DISCONNECTED_FOREVER' }"
    reading.locator(".stApp").evaluate(state)
    assert away.is_visible()
    # Pressed while no server answers; what was pressed is sent again until it is saved.
    choose_answer(page, "Fluency", "Similar")
    press_button(page, "Save and continue")
    page.get_by_role("alert").get_by_text("Not saved yet: the study does not answer").wait_for()
    assert "✓ Saved" not in page.content()
    assert count_chosen_answers(page) == 2
    with serve_study(served.built.folder, tmp_path / "log", port=int(url.rpartition(":")[2])):
        wait_for_next_page(page, "Pair 1 of 5")
        page.get_by_text("✓ Saved").wait_for()
        assert served.revisions("kim") == 2
        away.wait_for(state="hidden")
        reading.goto("about:blank")
        page.goto("about:blank")


def test_a_button_pressed_after_a_restart_takes_effect(served, visit, tmp_path):
    """The new session can receive the press only after the page is shown again."""
    page = visit("")
    with serve_study(served.built.folder, tmp_path / "log") as url:
        page.goto(served.link("lou").replace(served.url, url))
        close_instructions(page)
    with serve_study(served.built.folder, tmp_path / "log", port=int(url.rpartition(":")[2])):
        page.locator(".ge-away").wait_for(state="hidden")
        press_button(page, "Instructions")
        page.get_by_role("heading", name="What to judge").wait_for()
        page.goto("about:blank")
