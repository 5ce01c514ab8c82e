"""What is chosen and not saved outlives the tab, belongs to one rater, and is forgotten when it is saved."""

import json
import urllib.request
from collections.abc import Iterator
from http.cookies import SimpleCookie

import pytest
from app_browser import (
    ARGUMENTS,
    CHROMIUM,
    DESKTOP,
    Served,
    Wire,
    begin,
    chosen,
    faults,
    pick,
    prefer,
    save,
    serving,
    where,
)

from guard_eval.store import notes

pytestmark = pytest.mark.browser

KEPT = "() => Object.entries(localStorage).filter(([key]) => key.startsWith('draft-'))"

MORE = """
pairs_per_rater = 2
[annotation.pages]
consent = true
[annotation.recruitment]
prolific = true
codes = { completed = "CODE-DONE", no_place = "CODE-FULL", declined = "CODE-NO" }
"""


@pytest.fixture(scope="module")
def rooms(build_study, tmp_path_factory) -> Iterator[Served]:
    """Serve three short pairs to two raters."""
    folder = tmp_path_factory.mktemp("drafts")
    built = build_study(
        folder / "study",
        number=2,
        hostile=("marigold here", "thistle there"),
        raters=("ann", "ben", "cas", "dan", "eva"),
        slots=5,
    )
    with serving(built.folder, folder / "log") as url:
        yield Served(built, url)


@pytest.fixture
def context(chromium):
    context = chromium.new_context(**DESKTOP)
    context.set_default_timeout(15_000)
    yield context
    context.close()


def come(context, rooms, name):
    page = context.new_page()
    page.goto(rooms.link(name))
    start = page.get_by_role("button", name="Start")
    start.or_(page.get_by_role("group", name="Your answers")).first.wait_for()
    if start.count():
        begin(page)
    return page


def test_choices_outlive_the_tab_and_are_nobody_elses(rooms, context):
    page = come(context, rooms, "ann")
    pick(page, "Coherence", "A is better")
    page.get_by_role("button", name="Comment or problem").click()
    page.get_by_label("Comment on this pair").fill("half a thought")
    page.close()
    other = come(context, rooms, "ben")
    assert chosen(other) == 0
    other.close()
    page = come(context, rooms, "ann")
    assert chosen(page) == 1
    kept = page.evaluate(KEPT)
    assert [json.loads(value)["comment"] for _, value in kept if "thought" in value] == ["half a thought"]
    for word in ("marigold", "thistle", "Story", "ann", "valley"):
        assert word not in json.dumps(kept)
    pick(page, "Fluency", "Similar")
    save(page)
    assert "half a thought" not in json.dumps(page.evaluate(KEPT))
    while where(page) != "Thank you":
        pick(page, "Coherence", "Similar")
        pick(page, "Fluency", "Similar")
        save(page)
    page.close()
    with rooms.built.open() as store:
        assert [note.detail for note in notes.read(store, rater="ann", kind="comment")] == ["half a thought"]


def test_a_pair_is_skipped_with_a_reason_and_forgotten(rooms, context):
    page = come(context, rooms, "dan")
    assert page.locator("main, [role=main]").count() == 1
    pick(page, "Coherence", "B is better")
    page.get_by_role("button", name="Comment or problem").click()
    page.get_by_role("button", name="Skip this pair").click()
    assert "first tick what is wrong" in page.get_by_role("alert").inner_text()
    page.get_by_label("A text is damaged or cannot be read").check()
    heading = page.get_by_role("region", name="Continuation A").inner_text()
    page.get_by_role("button", name="Skip this pair").click()
    page.get_by_text("Skipped: another person gets this pair").wait_for()
    assert page.get_by_role("region", name="Continuation A").inner_text() != heading
    assert chosen(page) == 0
    assert "B" not in json.dumps([value for _, value in page.evaluate(KEPT)])
    with rooms.built.open() as store:
        assert [(skip.rater, skip.detail) for skip in notes.read(store, kind="skip")] == [
            ("dan", "unreadable")
        ]
        assert notes.read(store, rater="dan", kind="problem") == []


def test_a_browser_that_forbids_cookies_and_storage_rates_all_the_same(chromium, rooms, tmp_path):
    """As by Chromium's own setting: there the very name of localStorage throws."""
    folder = tmp_path / "profile" / "Default"
    folder.mkdir(parents=True)
    forbidden = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (folder / "Preferences").write_text(json.dumps(forbidden))
    context = chromium.browser_type.launch_persistent_context(
        str(folder.parent), executable_path=str(CHROMIUM), args=ARGUMENTS, **DESKTOP
    )
    try:
        context.set_default_timeout(15_000)
        page = come(context, rooms, "eva")
        read = "() => { try { return localStorage.length } catch (error) { return error.name } }"
        assert page.evaluate(read) == "SecurityError"
        pick(page, "Coherence", "Similar")
        pick(page, "Fluency", "Similar")
        save(page)
        assert rooms.revisions("eva") == 2
    finally:
        context.close()


# Raters from a platform: their id's browser, and codes that are secrets.


@pytest.fixture
def platform(build_study, tmp_path) -> Iterator[Served]:
    """Serve a study with two places, of two pairs each."""
    built = build_study(
        tmp_path / "study", number=1, hostile=("marigold x", "thistle y"), raters=(), slots=2, more=MORE
    )
    log = tmp_path / "log"
    with serving(built.folder, log) as url:
        yield Served(built, url)
    assert not [text for text in ("CODE-", "ann-id", "Traceback") if text in log.read_text()]


@pytest.fixture
def arrive(chromium, platform):
    """Come from Prolific in a browser of one's own."""
    contexts = {}

    def arrive(name, browser):
        if browser not in contexts:
            contexts[browser] = chromium.new_context(**DESKTOP)
        page = contexts[browser].new_page()
        page.set_default_timeout(15_000)
        page.wire = Wire(page, platform.url)
        page.goto(f"{platform.url}/?PROLIFIC_PID={name}&STUDY_ID=s&SESSION_ID=v")
        page.get_by_role("heading", level=1).wait_for()
        return page

    arrive.contexts = contexts
    yield arrive
    for context in contexts.values():
        context.close()


def _cookies(context):
    return [cookie for cookie in context.cookies() if cookie["name"].startswith("guard_eval_browser_")]


def test_two_tabs_opened_at_once_without_a_cookie_are_one_participant(platform, arrive):
    """The second tab's page was sent before the browser had the first one's cookie, and brings another."""
    with urllib.request.urlopen(platform.url, timeout=30) as sent:
        (given,) = SimpleCookie(sent.headers["Set-Cookie"]).values()
    other = [{"name": given.key, "value": given.value, "url": platform.url}]
    assert where(arrive("two-tabs-id", "b9")) == "Before you begin"
    arrive.contexts["b9"].add_cookies(other)
    assert len(_cookies(arrive.contexts["b9"])) == 2
    assert where(arrive("two-tabs-id", "b9")) == "Before you begin"
    # and so it is where the browser has lost the cookie of the first
    arrive.contexts["b9"].clear_cookies()
    arrive.contexts["b9"].add_cookies(other)
    assert where(arrive("two-tabs-id", "b9")) == "Before you begin"


def test_a_participants_way_and_what_others_see_meanwhile(platform, arrive):
    ann = arrive("ann-id", "b1")
    assert where(ann) == "Before you begin"
    arrive("ben-id", "b2")
    cas = arrive("cas-id", "b3")
    assert where(cas) == "No place is free just now"
    assert cas.get_by_text("CODE-FULL").is_visible()
    assert faults(cas) == []
    # the cookie is no script's
    (ours,) = _cookies(arrive.contexts["b1"])
    assert (ours["httpOnly"], ours["sameSite"], len(ours["value"])) == (True, "Lax", 43)
    # a thief with the id, and the owner again: first in another tab, then without cookies
    thief = arrive("ann-id", "b4")
    assert thief.get_by_text("in another browser").is_visible()
    ann = arrive("ann-id", "b1")
    assert where(ann) == "Before you begin"
    ann.get_by_role("button", name="I agree").click()
    ann.get_by_role("button", name="Start").wait_for()
    link = ann.locator(".ge-code").inner_text()
    assert link.startswith(f"{platform.url}/?invite=")
    begin(ann)
    prefer(ann, coherence="marigold", fluency="Similar")
    save(ann)
    assert b"code-" not in ann.wire.received
    arrive.contexts["b1"].clear_cookies()
    assert arrive("ann-id", "b1").get_by_text("in another browser").is_visible()
    ann.goto(link)
    assert where(ann) == "Pair 2 of 2"
    prefer(ann, coherence="marigold", fluency="Similar")
    assert b"code-" not in ann.wire.received
    save(ann)
    assert where(ann) == "Thank you"
    assert ann.get_by_text("CODE-DONE").is_visible()
    assert b"code-full" not in ann.wire.received
    assert b"code-no" not in ann.wire.received
    assert platform.rows("P-1").total() == 4
