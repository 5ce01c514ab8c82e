"""Drafts: unsaved choices survive the tab, stay private, and are deleted when they are saved."""

import json
import urllib.request
from http.cookies import SimpleCookie
from types import SimpleNamespace

import pytest
from app_browser import (
    ARGUMENTS,
    CHROMIUM,
    PageTraffic,
    choose_answer,
    choose_texts,
    close_instructions,
    count_chosen_answers,
    find_accessibility_faults,
    press_button,
    read_heading,
    save_answers,
)
from factories import prolific_id

pytestmark = pytest.mark.browser

KEPT = "() => Object.entries(localStorage).filter(([key]) => key.startsWith('draft-'))"


def open_first_pair(context, served, name):
    page = context.new_page()
    page.goto(served.link(name))
    close_instructions(page)
    return page


def test_drafts_survive_the_tab_and_stay_private(served, browse):
    context = browse().context
    page = open_first_pair(context, served, "uma")
    choose_answer(page, "Coherence", "A is better")
    press_button(page, "Comment or problem")
    page.get_by_label("Comment on this pair").fill("half a thought")
    page.evaluate("""() => [0, 31].forEach((days) => {
      localStorage[`draft-${days}-days`] = JSON.stringify({ at: Date.now() - days * 24 * 3600e3 });
    })""")
    page.close()
    other = open_first_pair(context, served, "vic")
    assert count_chosen_answers(other) == 0
    other.close()
    page = open_first_pair(context, served, "uma")
    assert count_chosen_answers(page) == 1
    drafts = dict(page.evaluate(KEPT))
    assert "draft-0-days" in drafts
    assert "draft-31-days" not in drafts  # its rater did not come back
    (draft,) = (json.loads(text) for text in drafts.values() if "thought" in text)
    assert draft["comment"] == "half a thought"
    for word in ("marigold", "thistle", "Story", "uma", "valley"):
        assert word not in json.dumps(drafts)
    choose_answer(page, "Fluency", "Similar")
    save_answers(page)
    assert "half a thought" not in json.dumps(page.evaluate(KEPT))
    (note,) = served.built.stored("notes", rater="uma", kind="comment")
    assert note.detail == "half a thought"


# A draft that is older than what is saved.


@pytest.fixture
def devices(serve, browse):
    """Two browsers of one rater, and a study of one pair."""
    served = serve(0)
    first, second = browse(), browse()

    def choose(page, answer):
        for criterion in ("Coherence", "Fluency"):
            choose_answer(page, criterion, answer)

    def verdicts():
        return {row.criterion: row.position for row in served.built.stored()}

    return SimpleNamespace(served=served, first=first, second=second, choose=choose, verdicts=verdicts)


def test_a_draft_never_overwrites_a_newer_answer(devices):
    """The rater finishes in one browser, changes the answer in another one, and returns to the first."""
    first, second = devices.first, devices.second
    first.goto(devices.served.link("ann"))
    close_instructions(first)
    devices.choose(first, "A is better")
    save_answers(first)
    assert read_heading(first) == "Thank you"
    second.goto(devices.served.link("ann"))
    second.get_by_role("heading", name="Thank you").wait_for()
    press_button(second, "Back")
    devices.choose(second, "B is better")
    press_button(second, "Save and continue")
    second.get_by_role("heading", name="Thank you").wait_for()
    press_button(first, "Back")
    press_button(first, "Go on here")
    press_button(first, "Back")
    first.get_by_role("radio", name="B is better", checked=True).first.wait_for()
    assert count_chosen_answers(first) == 2
    first.wait_for_timeout(1000)
    assert devices.verdicts() == {"coherence": "B", "fluency": "B"}
    assert devices.served.revisions("ann") == 4


def test_a_draft_never_hides_a_newer_answer(devices):
    """Unsaved choices are offered, and saved only after a press."""
    first, second = devices.first, devices.second
    first.goto(devices.served.link("ann"))
    close_instructions(first)
    devices.choose(first, "A is better")
    second.goto(devices.served.link("ann"))
    close_instructions(second)
    devices.choose(second, "B is better")
    save_answers(second)
    first.goto(devices.served.link("ann"))
    press_button(first, "Back")
    first.get_by_text("You chose other answers here that were never saved.").wait_for()
    assert first.get_by_role("radio", name="B is better", checked=True).count() == 2
    assert find_accessibility_faults(first) == []
    press_button(first, "Show what I chose here")
    first.get_by_role("radio", name="A is better", checked=True).first.wait_for()
    assert count_chosen_answers(first) == 2
    assert devices.verdicts() == {"coherence": "B", "fluency": "B"}
    press_button(first, "Save and continue")
    first.get_by_role("heading", name="Thank you").wait_for()
    assert devices.verdicts() == {"coherence": "A", "fluency": "A"}


def test_skipping_a_pair_needs_a_reason_and_deletes_its_draft(served, browse):
    page = open_first_pair(browse().context, served, "wil")
    choose_answer(page, "Coherence", "B is better")
    press_button(page, "Comment or problem")
    press_button(page, "Skip this pair")
    assert "first tick what is wrong" in page.get_by_role("alert").inner_text()
    page.get_by_label("A text is damaged or cannot be read").check()
    page.get_by_label("Comment on this pair").fill(" sad ")
    before = page.get_by_role("region", name="Continuation A").inner_text()
    press_button(page, "Skip this pair")
    page.get_by_text("Skipped: another person gets this pair").wait_for()
    assert page.get_by_role("region", name="Continuation A").inner_text() != before
    assert count_chosen_answers(page) == 0
    assert "B" not in json.dumps([text for _, text in page.evaluate(KEPT)])
    notes = [(note.kind, note.detail) for note in served.built.stored("notes", rater="wil")]
    assert sorted(notes)[::2] == [("comment", "sad"), ("skip", "unreadable")]


def test_a_browser_without_cookies_and_storage_can_rate(chromium, served, tmp_path):
    """Chromium's own setting forbids them, so even reading the name localStorage raises an error."""
    folder = tmp_path / "profile" / "Default"
    folder.mkdir(parents=True)
    forbidden = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (folder / "Preferences").write_text(json.dumps(forbidden))
    with chromium.browser_type.launch_persistent_context(
        str(folder.parent), executable_path=str(CHROMIUM), args=ARGUMENTS
    ) as context:
        page = open_first_pair(context, served, "xia")
        count_stored = "() => { try { return localStorage.length } catch (error) { return error.name } }"
        assert page.evaluate(count_stored) == "SecurityError"
        choose_texts(page, coherence="Similar", fluency="Similar")
        save_answers(page)
        assert served.revisions("xia") == 2


def test_a_criterion_added_before_a_restart_is_asked(visit):
    """The panel draws the same pair again with another criterion, as after a restart."""
    show = """async () => {
      const { show } = await guardEval.promise, parentElement = document.createElement("div");
      const view = { drafts: "d", pair: 1, prompt: "", a: "", b: "", where: "", done: 0, total: 1 };
      const criteria = ["x", "y"].map((name) => ({ name, title: name, definition: name }));
      document.body.append(parentElement);
      return [1, 2].map((count) => {
        const data = [{ ...view, criteria: criteria.slice(0, count) }];
        show({ data, parentElement, setTriggerValue() {} });
        return parentElement.querySelectorAll(".ge-question").length;
      });
    }"""
    assert visit("yan").evaluate(show) == [1, 2]


# Raters from a platform: their id's browser, and codes that are secrets.

MORE = """
pairs_per_rater = 2
[annotation.pages]
consent = true
[annotation.recruitment]
prolific = true
codes = { completed = "CODE-DONE", no_place = "CODE-FULL", declined = "CODE-NO" }
"""


def test_a_participant_gets_a_code_after_consent_and_ratings(serve, browse):
    """Two people are admitted. Each id works only in the browser that used it first."""
    platform = serve(raters=(), slots=2, more=MORE)
    contexts = {}

    def arrive(name, browser):
        context = contexts[browser] = contexts.get(browser) or browse().context
        page = context.new_page()
        page.wire = PageTraffic(page, platform.url)
        page.goto(f"{platform.url}/?PROLIFIC_PID={prolific_id(name)}&STUDY_ID=s&SESSION_ID=v")
        page.get_by_role("heading", level=1).wait_for()
        return page

    assert read_heading(arrive("ann-id", "b1")) == "Before you begin"
    arrive("ben-id", "b2")
    cas = arrive("cas-id", "b3")
    assert read_heading(cas) == "No place is free just now"
    assert cas.get_by_text("CODE-FULL").is_visible()
    assert find_accessibility_faults(cas) == []
    # The cookie is no script's.
    cookies = contexts["b1"].cookies()
    (cookie,) = [entry for entry in cookies if entry["name"].startswith("guard_eval_browser_")]
    assert (cookie["httpOnly"], cookie["sameSite"], len(cookie["value"])) == (True, "Lax", 43)
    # A second tab that was opened before there was a cookie brings another one: from now on either will do.
    with urllib.request.urlopen(platform.url, timeout=30) as sent:
        (second,) = SimpleCookie(sent.headers["Set-Cookie"]).values()
    names = (second.key, f"{second.key}-again")  # a browser may send one secret twice
    other = [{"name": name, "value": second.value, "url": platform.url} for name in names]
    contexts["b1"].add_cookies(other)
    assert read_heading(arrive("ann-id", "b1")) == "Before you begin"
    contexts["b1"].clear_cookies()
    contexts["b1"].add_cookies(other)
    ann = arrive("ann-id", "b1")
    assert read_heading(ann) == "Before you begin"
    # A thief with the id, and the owner without cookies: the personal link leads back.
    assert arrive("ann-id", "b4").get_by_text("in another browser").is_visible()
    press_button(ann, "I agree")
    ann.get_by_role("button", name="Start").wait_for()
    link = ann.locator(".ge-code").inner_text()
    assert link.startswith(f"{platform.url}/?invite=")
    close_instructions(ann)
    choose_texts(ann, coherence="marigold", fluency="Similar")
    save_answers(ann)
    contexts["b1"].clear_cookies()
    assert arrive("ann-id", "b1").get_by_text("in another browser").is_visible()
    ann.goto(link)
    assert read_heading(ann) == "Pair 2 of 2"
    assert b"code-" not in ann.wire.received
    choose_texts(ann, coherence="marigold", fluency="Similar")
    save_answers(ann)
    assert ann.get_by_text("CODE-DONE").is_visible()
    assert {code for code in (b"code-full", b"code-no") if code in ann.wire.received} == set()
    assert platform.rows("P-1").total() == 4
