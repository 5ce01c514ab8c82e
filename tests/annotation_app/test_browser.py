"""Real raters' sessions in Chromium, against the real server."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = Path("/usr/bin/chromium")
PACKAGE = Path(__file__).parents[2] / "annotation_app"
FIRST_WORD, SECOND_WORD = "marigold", "thistle"
HOSTILE = (
    f"{FIRST_WORD} <script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    "<style>*{{display:none}}</style> ![x](https://example.org/x.png) $$\\frac12$$ **bold** :material/home: "
    "\u202egnorw\u202c nul\x00 \ud83d half"
)
LONG = f"{SECOND_WORD} " + "word " * 20_000

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing; apt-get install chromium"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Served:
    """A study behind a running server."""

    def __init__(self, built: Any, url: str, log: Path) -> None:
        self.built, self.url, self.log = built, url, log

    def link(self, name: str) -> str:
        return f"{self.url}/?invite={self.built.tokens[name]}"


@contextmanager
def serving(folder: Path, log: Path, *, port: int = 0) -> Iterator[str]:
    """Serve the study as the command does, and stop it as Ctrl-C does."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom annotation_app.launch import serve\n"
        "ready = lambda url: print(url, flush=True)\n"
        "sys.exit(serve(Path(sys.argv[1]), port=int(sys.argv[2]), on_ready=ready))"
    )
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(port)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), log.read_text()
        yield url
        # To the parent alone, as a service manager would: it must take its server with it.
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout.close()


@pytest.fixture(scope="module")
def served(build_study: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    built = build_study(
        folder / "study",
        number=2,
        hostile=(HOSTILE, LONG),
        raters=("ann", "ben", "cas", "dan", "eve", "fay", "gus"),
        slots=7,
    )
    log = folder / "log"
    with serving(built.folder, log) as url:
        yield Served(built, url, log)
    said = log.read_text()
    assert not [token for token in built.tokens.values() if token in said]
    assert FIRST_WORD not in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def desktop(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def visit(chromium: Any, desktop: Any, served: Served) -> Iterator[Callable[..., Any]]:
    """Open a page, signed in and at the first pair where a name is given."""
    opened = []

    def open_page(name: str, **options: Any) -> Any:
        if options:
            context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
            opened.append(context)
        else:
            context = desktop
        page = context.new_page()
        page.set_default_timeout(15_000)
        opened.append(page)
        if name:
            page.goto(served.link(name))
            begin(page)
        return page

    yield open_page
    for thing in reversed(opened):
        thing.close()


def begin(page: Any) -> None:
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="Save and continue").wait_for()


MOVED_ON = """before => {
  const idle = document.querySelector('[data-testid="stApp"]')?.dataset.testScriptState === "notRunning";
  return idle && (document.querySelector("h1")?.innerText ?? before) !== before;
}"""
"""The next page is there, and nothing of the last one: Streamlit removes that when its script has ended."""


def where(page: Any) -> str:
    return str(page.locator("h1").inner_text())


def first_is_a(page: Any) -> bool:
    return FIRST_WORD in page.get_by_role("region", name="Continuation A").inner_text()


def pick(page: Any, criterion: str, answer: str) -> None:
    page.get_by_role("radiogroup", name=criterion).get_by_role("radio", name=answer).click()


def save(page: Any) -> None:
    before = where(page)
    page.get_by_role("button", name="Save and continue").click()
    page.wait_for_function(MOVED_ON, arg=before)


def prefer(page: Any, *, coherence: str, fluency: str) -> None:
    """Choose by the word in the text; `Similar` is itself."""
    for criterion, word in (("Coherence", coherence), ("Fluency", fluency)):
        side = "A" if (word == FIRST_WORD) == first_is_a(page) else "B"
        pick(page, criterion, "Similar" if word == "Similar" else f"{side} is better")


def rate_all(page: Any, **preferences: str) -> None:
    while where(page) != "Thank you":
        prefer(page, **preferences)
        save(page)


def rows(served: Served, name: str) -> Counter[tuple[str, str]]:
    with served.built.open() as store:
        return Counter((row.criterion, row.verdict) for row in store.tidy() if row.rater == name)


def revisions(served: Served, name: str) -> int:
    with sqlite3.connect(served.built.folder / "study.db") as database:
        (count,) = database.execute(
            "SELECT count(*) FROM verdict JOIN presentation ON presentation.id = verdict.presentation_id "
            "JOIN rater ON rater.id = presentation.rater_id WHERE rater.name = ?",
            (name,),
        ).fetchone()
    database.close()
    return int(count)


class Wire:
    """Everything a page receives, but for Streamlit's own files."""

    def __init__(self, page: Any, url: str) -> None:
        self._url = url
        self.data = b""
        self.sent = 0
        self.foreign: list[str] = []
        page.on("websocket", self._socket)
        page.on("response", self._response)
        page.on("request", self._request)

    def _socket(self, socket: Any) -> None:
        socket.on("framereceived", self._received)
        socket.on("framesent", self._sent)

    def _received(self, payload: bytes | str) -> None:
        self.data += payload if isinstance(payload, bytes) else payload.encode()

    def _sent(self, _payload: bytes | str) -> None:
        self.sent += 1

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self._url, f"blob:{self._url}", "data:")):
            self.foreign.append(request.url)

    def _response(self, response: Any) -> None:
        self.data += response.url.encode() + repr(response.headers).encode()
        if "/static/" not in response.url and response.url.startswith(self._url) and response.status == 200:
            self.data += response.body()


def test_two_raters_see_no_names_and_their_verdicts_find_the_methods(
    served: Served, visit: Callable[..., Any]
):
    built = served.built
    page = visit("")
    wire = Wire(page, served.url)
    page.goto(served.link("ann"))
    begin(page)

    # The first pair is rated the wrong way round, gone back to, and put right.
    prefer(page, coherence=SECOND_WORD, fluency=FIRST_WORD)
    save(page)
    page.get_by_text("✓ Saved").wait_for()
    page.get_by_role("button", name="Back").click()
    page.get_by_text("Pair 1 of 3").wait_for()
    prefer(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
    save(page)

    # A refresh in the middle resumes at the pair that was open.
    page.reload()
    page.get_by_role("button", name="Save and continue").wait_for()
    assert where(page) == "Pair 2 of 3"
    rate_all(page, coherence=FIRST_WORD, fluency=SECOND_WORD)

    other = visit("ben")
    rate_all(other, coherence=SECOND_WORD, fluency="Similar")

    assert rows(served, "ann") == {("coherence", built.first): 3, ("fluency", built.second): 3}
    assert revisions(served, "ann") == 8
    assert rows(served, "ben") == {("coherence", built.second): 3, ("fluency", "tie"): 3}

    assert wire.foreign == []
    received = wire.data.lower()
    assert received.count(FIRST_WORD.encode()) >= 3
    secrets = [
        *(built.first, built.second, "contrastive", "top_k", built.dataset, "heldout", "c0ffee", "deface"),
        *(str(built.seed), str(built.folder), "study.db", "study.toml", str(PACKAGE), sys.prefix),
        *(pair.id for pair in built.pairs),
    ]
    assert [secret for secret in secrets if secret.lower().encode() in received] == []


def test_hostile_texts_are_shown_and_not_run(served: Served, visit: Callable[..., Any]):
    page = visit("cas")
    wire = Wire(page, served.url)
    while HOSTILE[:20] not in page.locator(".ge-sides").inner_text():
        prefer(page, coherence="Similar", fluency="Similar")
        save(page)
    shown = page.locator(".ge-text", has_text=FIRST_WORD).inner_text()
    assert shown.strip() == HOSTILE.replace("\x00", "␀").replace("\ud83d", "\ufffd")
    assert page.locator(".ge-text *").count() == 0
    assert page.title() == "Compare two texts"
    assert wire.foreign == []
    long = page.locator(".ge-text", has_text=SECOND_WORD)
    assert len(long.inner_text()) == len(LONG)
    # However long the texts, the answers can be saved without a search for the button.
    button = page.get_by_role("button", name="Save and continue").bounding_box()
    assert button["y"] + button["height"] <= 900


def test_an_ordinary_pair_needs_no_scrolling_and_choosing_no_server(
    served: Served, visit: Callable[..., Any]
):
    page = visit("")
    wire = Wire(page, served.url)
    page.goto(served.link("dan"))
    begin(page)
    while "<script>" in page.locator(".ge-sides").inner_text():
        prefer(page, coherence="Similar", fluency="Similar")
        save(page)
    main = page.locator('[data-testid="stMain"]')
    assert main.evaluate("element => element.scrollHeight <= element.clientHeight")
    assert page.get_by_role("radio", checked=True).count() == 0

    page.wait_for_timeout(300)
    sent = wire.sent
    pick(page, "Coherence", "A is better")
    pick(page, "Coherence", "Similar")
    pick(page, "Fluency", "B is better")
    page.wait_for_timeout(300)
    assert wire.sent == sent
    assert page.get_by_role("radio", checked=True).count() == 2

    # A double click is one answer.
    before, saved = where(page), revisions(served, "dan")
    page.get_by_role("button", name="Save and continue").dblclick()
    page.wait_for_function(MOVED_ON, arg=before)
    page.wait_for_timeout(500)
    assert revisions(served, "dan") == saved + 2


def test_the_keyboard_alone_is_enough(served: Served, visit: Callable[..., Any]):
    page = visit("eve")
    assert page.locator("html").get_attribute("lang") == "en"
    page.get_by_role("radiogroup", name="Coherence").get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+Enter")
    page.get_by_role("alert").get_by_text("please choose an answer for Fluency.").wait_for()
    page.get_by_role("radiogroup", name="Coherence").get_by_role("radio", checked=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Pair 2 of 3").wait_for()
    # A new page is announced: the focus is on its heading.
    page.wait_for_function("() => document.activeElement.tagName === 'H1'")
    assert revisions(served, "eve") == 2


CONTRAST = """
selector => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const lit = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const element = document.querySelector(selector);
  let behind = element, colour;
  do { colour = parse(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; }
  while (behind && colour.length > 3 && colour[3] === 0);
  const [high, low] = [lit(parse(getComputedStyle(element).color)), lit(colour)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(served: Served, visit: Callable[..., Any], scheme: str):
    page = visit("fay", color_scheme=scheme)
    pick(page, "Coherence", "A is better")
    page.get_by_role("button", name="Save and continue").click()
    page.get_by_role("alert").wait_for()
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)
    for selector in (
        ".ge-text", ".ge-box h2", ".ge-badge", ".ge-question h3", ".ge-question p", ".ge-head h1",
        ".ge-problem", ".ge-note",
        'button[role="radio"][aria-checked="true"] p', 'button[role="radio"][aria-checked="false"] p',
        ".st-key-save button p", ".st-key-instructions button p",
    ):  # fmt: skip
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
    ground = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 22, 20)"}[scheme]


def test_a_phone_shows_one_text_below_the_other(served: Served, visit: Callable[..., Any]):
    page = visit("fay", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    a, b = (page.get_by_role("region", name=f"Continuation {letter}").bounding_box() for letter in "AB")
    assert b["y"] >= a["y"] + a["height"]
    assert a["x"] >= 0
    assert a["x"] + a["width"] <= 390
    button = page.get_by_role("button", name="Save and continue").bounding_box()
    assert button["y"] + button["height"] <= 844
    for radio in page.get_by_role("radio").all():
        assert radio.bounding_box()["height"] >= 44
    before = where(page)
    for criterion in ("Coherence", "Fluency"):
        page.get_by_role("radiogroup", name=criterion).get_by_role("radio", name="Similar").tap()
    page.get_by_role("button", name="Save and continue").tap()
    page.wait_for_function(MOVED_ON, arg=before)
    page.wait_for_function("""() => document.querySelector('[data-testid="stMain"]').scrollTop === 0""")


def test_a_study_that_vanishes_is_a_calm_page(served: Served, visit: Callable[..., Any]):
    """The study's folder is moved away and back under a rater's hands."""
    page = visit("")
    folder = served.built.folder
    away = folder.with_name("away")
    folder.rename(away)
    try:
        page.goto(served.link("ann"))
        page.get_by_text("Please try again in a moment").wait_for()
        assert str(folder) not in page.content()
    finally:
        away.rename(folder)
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Thank you").wait_for()


def test_a_restarted_server_takes_the_answers_still_on_the_screen(
    served: Served, visit: Callable[..., Any], tmp_path: Path
):
    page = visit("")
    with serving(served.built.folder, tmp_path / "log") as url:
        page.goto(served.link("gus").replace(served.url, url))
        begin(page)
        prefer(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
        save(page)
        prefer(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
    page.wait_for_function("() => document.querySelectorAll('[role=radio][aria-checked=true]').length === 2")
    with serving(served.built.folder, tmp_path / "log", port=int(url.rpartition(":")[2])):
        save(page)
        assert rows(served, "gus") == {
            ("coherence", served.built.first): 2,
            ("fluency", served.built.second): 2,
        }
        page.goto("about:blank")


def test_headers_forbid_what_the_page_does_not_need(served: Served, visit: Callable[..., Any]):
    page = visit("")
    headers = page.goto(served.url).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    page.get_by_label("Invite code").wait_for()
    page.evaluate(
        "const s = document.createElement('script'); s.text = 'window.ran = 1'; document.body.append(s)"
    )
    assert page.evaluate("window.ran") is None
