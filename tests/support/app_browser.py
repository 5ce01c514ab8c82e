"""The annotation app in a real browser: a served study, the actions of a rater, and all received data."""

import importlib.util
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from guard_eval.store import raters, unblind

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

FIRST_WORD, SECOND_WORD = "marigold", "thistle"
HOSTILE = (
    f"{FIRST_WORD} <script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    "<style>*{{display:none}}</style> ![x](https://example.org/x.png) $$\\frac12$$ **bold** :material/home: "
    "\u202egnorw\u202c nul\x00 \ud83d half 🦔"
)
LONG = f"{SECOND_WORD} " + "word " * 20_000


class ServedStudy:
    """A study behind a running server."""

    def __init__(self, built, url):
        self.built, self.url = built, url

    def link(self, name):
        """Return a rater's link. Invite the rater if the name is new."""
        if name not in self.built.tokens:
            with self.built.open() as store:
                self.built.tokens[name] = raters.invite_rater(store, name)[1]
        return f"{self.url}/?invite={self.built.tokens[name]}"

    def rows(self, name):
        """Count the rater's verdicts by criterion and verdict."""
        with self.built.open() as store:
            return Counter(
                (row.criterion, row.verdict) for row in unblind.read_tidy_rows(store) if row.rater == name
            )

    def revisions(self, name):
        """Count the rater's stored verdicts, including changed ones, gold pairs and repeats."""
        with self.built.open() as store:
            return sum(row.rater == name for row in unblind.read_verdict_history(store))


@contextmanager
def serve_study(folder, log, *, port=0, most_files=0):
    """Serve the study as the command does, and stop the server as Ctrl-C does.

    `most_files` limits the number of files that the server may have open.
    """
    start = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-m", "guard_eval", "annotate", str(folder), "--port", str(port)]
    if most_files:
        command = ["sh", "-c", f'ulimit -n {most_files} && exec "$@"', "sh", *command]
    with log.open("a") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    until = time.monotonic() + 60
    try:
        while not (ready := re.search(rb"Serving on (http://127\.0\.0\.1:\d+) ", log.read_bytes()[start:])):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.02)
        yield ready[1].decode()
    finally:
        # Only to the parent, as from a service manager: the parent must stop its server.
        process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


class PageTraffic:
    """Records all data that a page receives, except Streamlit's own files and our scripts."""

    def __init__(self, page, url):
        self._url = url
        self._data = b""
        self.sent = 0
        self.foreign = []
        page.on("websocket", self._socket)
        page.on("response", self._response)
        page.on("request", self._request)

    @property
    def received(self):
        from annotation_app.markup import read_asset

        data = self._data
        for name in ("page.js", "page.css", "panel.js", "panel.css", "shell.html"):
            data = data.replace(read_asset(name).strip().encode(), b"")
        return data.lower()

    def _socket(self, socket):
        socket.on("framereceived", self._received)
        socket.on("framesent", self._sent)

    def _received(self, payload):
        self._data += payload if isinstance(payload, bytes) else payload.encode()

    def _sent(self, _payload):
        self.sent += 1

    def _request(self, request):
        if not request.url.startswith((self._url, f"blob:{self._url}", "data:")):
            self.foreign.append(request.url)

    def _response(self, response):
        self._data += response.url.encode() + repr(response.headers).encode()
        if "/static/" not in response.url and response.url.startswith(self._url) and response.status == 200:
            self._data += response.body()


# The actions of a rater.


def close_instructions(page):
    """Close the instructions, which are shown only once."""
    start, save = (page.get_by_role("button", name=name) for name in ("Start", "Save and continue"))
    start.or_(save).first.wait_for()
    if start.count():
        start.click()
    save.wait_for()


def read_heading(page):
    """Return the page's heading, once the last page's heading is gone: Streamlit may show both."""
    heading = page.wait_for_function(
        "() => document.querySelectorAll('h1').length === 1 && document.querySelector('h1').innerText"
    )
    return str(heading.json_value())


def wait_for_next_page(page, before):
    """Wait until the next page has completely replaced the last page."""
    page.wait_for_function(
        "before => document.querySelectorAll('h1').length === 1"
        " && document.querySelector('h1').innerText !== before",
        arg=before,
    )


def is_first_word_in_a(page):
    return FIRST_WORD in page.get_by_role("region", name="Continuation A").inner_text()


def press_button(page, button):
    page.get_by_role("button", name=button).click()


def choose_answer(page, criterion, answer):
    page.get_by_role("radiogroup", name=criterion).get_by_role("radio", name=answer).click()


def save_answers(page):
    before = read_heading(page)
    press_button(page, "Save and continue")
    wait_for_next_page(page, before)


def choose_texts(page, *, coherence, fluency):
    """Choose the text that contains a word, or `Similar`, for each criterion."""
    for criterion, word in (("Coherence", coherence), ("Fluency", fluency)):
        side = "A" if (word == FIRST_WORD) == is_first_word_in_a(page) else "B"
        choose_answer(page, criterion, "Similar" if word == "Similar" else f"{side} is better")


def rate_all_pairs(page, **preferences):
    while read_heading(page) != "Thank you":
        choose_texts(page, **preferences)
        save_answers(page)


def count_chosen_answers(page):
    return int(page.get_by_role("radio", checked=True).count())


# The look of a page.


def measure_contrast(page, selector):
    """Return the contrast of an element's text with the background by WCAG 2.2, including transparency."""
    return float(page.evaluate(_CONTRAST, selector))


_CONTRAST = """selector => {
  const parts = colour => [...colour.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (ground, colour, pale = 1) =>
    ground.map((part, i) => part + (colour[i] - part) * colour[3] * pale);
  const light = colour => colour.map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0.05);
  const element = document.querySelector(selector), around = [];
  for (let each = element; each; each = each.parentElement) around.unshift(getComputedStyle(each));
  const ground = around.reduce((below, style) => over(below, parts(style.backgroundColor)), [255, 255, 255]);
  const pale = around.reduce((product, style) => product * style.opacity, 1);
  const lights = [light(ground), light(over(ground, parts(getComputedStyle(element).color), pale))];
  return Math.max(...lights) / Math.min(...lights);
}"""


# The findings of axe-core.


def find_accessibility_faults(page):
    """Return axe-core's serious and critical findings on the current page."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-playwright-python is not installed")
    script = Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script + "; null")
    result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in result["violations"]
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"]
    ]
