"""What a rater sees, and what is kept, when something breaks under their hands."""

import pytest
from app_browser import (
    FIRST_WORD,
    SECOND_WORD,
    begin,
    chosen,
    contrast,
    moved_on,
    pick,
    prefer,
    save,
    serving,
    where,
)

pytestmark = pytest.mark.browser


def test_a_study_that_vanishes_keeps_what_was_chosen(served, visit):
    """The study's folder is moved away and back under a rater's hands."""
    if not served.built.database.startswith("sqlite"):
        pytest.skip("the database of a server does not lie in the folder; test_browser_postgres has its like")
    page = visit("jon")
    prefer(page, coherence=FIRST_WORD, fluency="Similar")
    folder = served.built.folder
    away = folder.with_name("away")
    folder.rename(away)
    try:
        page.keyboard.press("Control+Enter")
        page.get_by_text("Please try again in a moment").wait_for()
        assert str(folder) not in page.content()
    finally:
        away.rename(folder)
    page.get_by_role("button", name="Try again").click()
    # Nobody knows what became of the press: the browser sends it again by itself.
    moved_on(page, "Please try again in a moment")
    page.get_by_text("Pair 2 of 5").wait_for()
    page.get_by_text("✓ Saved").wait_for()
    assert served.revisions("jon") == 2


def test_a_restarted_server_takes_the_answers_still_on_the_screen(served, visit, tmp_path):
    page, reading = visit(""), visit("")
    with serving(served.built.folder, tmp_path / "log") as url:
        for tab in (reading, page):
            tab.goto(served.link("kim").replace(served.url, url))
            tab.get_by_role("button", name="Start").wait_for()
        begin(page)
        prefer(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
        save(page)
        before = where(page)
        pick(page, "Coherence", "Similar")
    away = reading.get_by_role("alert").get_by_text("The study cannot be reached just now")
    away.wait_for()
    assert contrast(reading, ".stMain button p") >= 4.5  # Streamlit disables it meanwhile
    assert reading.locator(".stDialog").count() == 0
    # In time Streamlit would bar the page with a dialog about its server; this one is like it.
    page.evaluate("""() => {
      const dialog = document.createElement("div"), close = document.createElement("button");
      dialog.className = "stDialog";
      dialog.append(close);
      close.addEventListener("click", () => dialog.remove());
      document.body.append(dialog);
    }""")
    page.get_by_role("alert").get_by_text("The study does not answer just now").wait_for()
    assert page.locator(".stDialog").count() == 0
    # Pressed while no server answers; what was pressed is sent again until it is saved.
    pick(page, "Fluency", "Similar")
    page.get_by_role("button", name="Save and continue").click()
    page.get_by_role("alert").get_by_text("Not saved yet: the study does not answer").wait_for()
    assert "✓ Saved" not in page.content()
    assert chosen(page) == 2
    with serving(served.built.folder, tmp_path / "log", port=int(url.rpartition(":")[2])):
        moved_on(page, before)
        page.get_by_text("✓ Saved").wait_for()
        assert served.revisions("kim") == 4
        away.wait_for(state="hidden")
        reading.goto("about:blank")
        page.goto("about:blank")


def test_a_revoked_link_ends_calmly(served, visit):
    page = visit("lea")
    prefer(page, coherence="Similar", fluency="Similar")
    save(page)
    with served.built.open() as store:
        store.revoke("lea")
    prefer(page, coherence="Similar", fluency="Similar")
    page.get_by_role("button", name="Save and continue").click()
    page.get_by_role("alert").get_by_text("it has been withdrawn").wait_for()
    assert served.revisions("lea") == 2
