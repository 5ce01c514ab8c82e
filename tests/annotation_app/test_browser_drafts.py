"""What is chosen and not saved outlives the tab, belongs to one rater, and is forgotten when it is saved."""

import json
from collections.abc import Iterator

import pytest
from app_browser import (
    ARGUMENTS,
    CHROMIUM,
    DESKTOP,
    Served,
    begin,
    chosen,
    moved_on,
    pick,
    save,
    serving,
    where,
)

pytestmark = pytest.mark.browser

KEPT = "() => Object.entries(localStorage).filter(([key]) => key.startsWith('draft-'))"

LINES = """selector => {
  const text = document.querySelector(selector).firstChild;
  const range = document.createRange();
  const lines = new Map();
  for (let at = 0; at < text.length; at++) {
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    const box = range.getClientRects()[0];
    if (box) lines.set(Math.round(box.top), (lines.get(Math.round(box.top)) ?? 0) + 1);
  }
  return [...lines.values()];
}"""
"""How many characters each line of a text has."""


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
    page.wait_for_function(f"() => ({KEPT})().length <= 1")  # ben's own
    page.close()
    with rooms.built.open() as store:
        assert [note.detail for note in store.notes(rater="ann", kind="comment")] == ["half a thought"]


def test_a_second_tab_goes_on_and_the_first_takes_over_without_a_loss(rooms, context):
    first = come(context, rooms, "cas")
    pick(first, "Coherence", "B is better")
    second = come(context, rooms, "cas")
    elsewhere = first.get_by_role("dialog", name="The study is open in another tab")
    elsewhere.wait_for()
    assert chosen(second) == 1
    first.keyboard.press("1")
    pick(second, "Fluency", "Similar")
    save(second)
    assert rooms.rows("cas").total() == 2
    pick(second, "Fluency", "A is better")
    first.bring_to_front()
    elsewhere.get_by_role("button", name="Go on here").click()
    first.get_by_role("dialog").wait_for(state="hidden")
    assert where(first) == "Pair 2 of 3"
    assert chosen(first) == 1
    second.get_by_role("dialog", name="The study is open in another tab").wait_for()
    assert rooms.rows("cas").total() == 2


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
        assert [(skip.rater, skip.reason) for skip in store.skips()] == [("dan", "unreadable")]
        assert store.notes(rater="dan", kind="problem") == []


def test_lines_are_short_and_boxes_end_with_their_texts(rooms, context):
    page = come(context, rooms, "dan")
    for _ in range(2):
        assert max(page.evaluate(LINES, ".ge-prompt .ge-text")) <= 75
        for side in page.locator(".ge-side").all():
            text = side.locator(".ge-text")
            room = text.evaluate("box => box.clientHeight - box.scrollHeight")
            assert room <= 0
            assert side.evaluate("box => box.clientHeight") <= 60 + text.evaluate("box => box.scrollHeight")
        before = where(page)
        pick(page, "Coherence", "Similar")
        pick(page, "Fluency", "Similar")
        page.get_by_role("button", name="Save and continue").click()
        moved_on(page, before)


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
