"""A rater in Chromium whose study lies on a PostgreSQL server, which is lost for a while as they rate."""

import pytest
from app_browser import (
    DESKTOP,
    FIRST_WORD,
    SECOND_WORD,
    Served,
    begin,
    moved_on,
    pick,
    rate_all,
    save,
    serving,
    where,
)

pytestmark = [pytest.mark.browser, pytest.mark.postgres]


def test_what_was_pressed_while_the_server_was_away_is_saved_once(build_study, databases, chromium, tmp_path):
    built = build_study(
        tmp_path / "study",
        number=2,
        hostile=(FIRST_WORD, SECOND_WORD),
        new_database=lambda folder: databases.new("postgres", folder),
    )
    with serving(built.folder, tmp_path / "log") as url:
        served = Served(built, url)
        page = chromium.new_page(**DESKTOP)
        page.set_default_timeout(15_000)
        page.goto(served.link("ann"))
        begin(page)
        for criterion in ("Coherence", "Fluency"):
            pick(page, criterion, "Similar")
        save(page)
        before = where(page)
        with databases.away(built.database):
            for criterion in ("Coherence", "Fluency"):
                pick(page, criterion, "A is better")
            page.keyboard.press("Control+Enter")
            page.get_by_role("alert").get_by_text("could not be saved").wait_for()
            assert "✓ Saved" not in page.content()
        page.keyboard.press("Control+Enter")
        moved_on(page, before)
        page.get_by_text("✓ Saved").wait_for()
        assert served.revisions("ann") == 4
        rate_all(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
        page.close()
    assert served.revisions("ann") == 6
    rows = served.rows("ann")
    assert rows["coherence", "tie"] == rows["fluency", "tie"] == 1
    assert sum(rows.values()) == 6
    databases.drop(built.database)
    log = (tmp_path / "log").read_text()
    assert "not currently accepting connections" in log
    assert "Traceback" not in log
