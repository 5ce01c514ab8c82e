"""Raters from a platform in a real browser: their place, their id's browser, and codes that are secrets."""

import urllib.request
from collections.abc import Iterator
from http.cookies import SimpleCookie

import pytest
from app_browser import DESKTOP, Served, Wire, begin, faults, prefer, save, serving, where

pytestmark = pytest.mark.browser

MORE = """
pairs_per_rater = 2
[annotation.pages]
consent = true
[annotation.recruitment]
prolific = true
codes = { completed = "CODE-DONE", no_place = "CODE-FULL", declined = "CODE-NO" }
"""


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
def come(chromium, platform):
    """Come from Prolific in a browser of one's own."""
    contexts = {}

    def come(name, browser):
        if browser not in contexts:
            contexts[browser] = chromium.new_context(**DESKTOP)
        page = contexts[browser].new_page()
        page.set_default_timeout(15_000)
        page.wire = Wire(page, platform.url)
        page.goto(f"{platform.url}/?PROLIFIC_PID={name}&STUDY_ID=s&SESSION_ID=v")
        page.get_by_role("heading", level=1).wait_for()
        return page

    come.contexts = contexts
    yield come
    for context in contexts.values():
        context.close()


def _cookies(context):
    return [cookie for cookie in context.cookies() if cookie["name"].startswith("guard_eval_browser_")]


def test_two_tabs_opened_at_once_without_a_cookie_are_one_participant(platform, come):
    """The second tab's page was sent before the browser had the first one's cookie, and brings another."""
    with urllib.request.urlopen(platform.url, timeout=30) as sent:
        (given,) = SimpleCookie(sent.headers["Set-Cookie"]).values()
    first = come("two-tabs-id", "b9")
    assert where(first) == "Before you begin"
    come.contexts["b9"].add_cookies([{"name": given.key, "value": given.value, "url": platform.url}])
    assert len(_cookies(come.contexts["b9"])) == 2
    second = come("two-tabs-id", "b9")
    assert where(second) == "Before you begin"
    # and so it is where the browser has lost the cookie of the first
    come.contexts["b9"].clear_cookies()
    come.contexts["b9"].add_cookies([{"name": given.key, "value": given.value, "url": platform.url}])
    assert where(come("two-tabs-id", "b9")) == "Before you begin"


def test_a_participants_way_and_what_others_see_meanwhile(platform, come):
    ann = come("ann-id", "b1")
    assert where(ann) == "Before you begin"
    come("ben-id", "b2")
    cas = come("cas-id", "b3")
    assert where(cas) == "No place is free just now"
    assert cas.get_by_text("CODE-FULL").is_visible()
    assert faults(cas) == []
    # the cookie is no script's
    (ours,) = _cookies(come.contexts["b1"])
    assert (ours["httpOnly"], ours["sameSite"], len(ours["value"])) == (True, "Lax", 43)
    # a thief with the id, and the owner again: first in another tab, then without cookies
    thief = come("ann-id", "b4")
    assert thief.get_by_text("in another browser").is_visible()
    assert where(come("ann-id", "b1")) == "Before you begin"
    ann.get_by_role("button", name="I agree").click()
    ann.get_by_role("button", name="Start").wait_for()
    link = ann.locator(".ge-code").inner_text()
    assert link.startswith(f"{platform.url}/?invite=")
    begin(ann)
    prefer(ann, coherence="marigold", fluency="Similar")
    save(ann)
    assert b"code-" not in ann.wire.received
    come.contexts["b1"].clear_cookies()
    assert come("ann-id", "b1").get_by_text("in another browser").is_visible()
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


def test_text_on_the_websocket_ends_it_and_nothing_is_in_the_log(platform):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    address = platform.url.replace("http", "ws", 1) + "/_stcore/stream"
    with connect(address) as socket:
        socket.send("text")
        with pytest.raises(ConnectionClosed) as closed:
            list(iter(lambda: socket.recv(timeout=30), None))
    assert closed.value.rcvd.code == 1003
