"""Streamlit's own files as they travel: compressed for who takes it, and the same file for everybody."""

import gzip
import http.client
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import streamlit
from starlette.datastructures import Headers

from annotation_app.server.middleware import _takes_gzip

pytestmark = pytest.mark.slow

STATIC = Path(streamlit.__file__).with_name("static")
GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture
def ask(served):
    """Ask the server as no library does, and return status, headers and body as they came."""

    def answer(path, method="GET", **headers):
        address = urlsplit(served.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        connection.request(method, path, headers={**headers})
        found = connection.getresponse()
        body = found.read()
        connection.close()
        return found.status, Headers(dict(found.getheaders())), body

    return answer


def first_files():
    """Return what the page asks for before anything is shown."""
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    return re.findall(r'(?:src|href)="\.(/static/[^"]+)"', index)


SCRIPT = next(path for path in first_files() if path.endswith(".js"))


def test_everything_the_page_begins_with_arrives_compressed_and_whole(ask):
    plain = compressed = 0
    for path in ("/", *first_files()):
        file = STATIC / ("index.html" if path == "/" else path[1:])
        status, headers, body = ask(path, **GZIP)
        assert status == 200
        assert int(headers["content-length"]) == len(body)
        if file.suffix in {".woff2", ".png"} or file.stat().st_size < 1000:
            assert "content-encoding" not in headers
            assert body == file.read_bytes()
        else:
            assert headers["content-encoding"] == "gzip"
            assert headers["vary"] == "Accept-Encoding"
            assert gzip.decompress(body) == file.read_bytes()
            plain, compressed = plain + file.stat().st_size, compressed + len(body)
        # What the other middlewares add is there as well.
        assert headers["x-content-type-options"] == "nosniff"
        assert "immutable" in headers["cache-control"] or path == "/"
    assert compressed < plain / 3


@pytest.mark.parametrize("encoding", [None, "identity", "br", "gzip;q=0", "*;q=0", "gzip ; q=0.000"])
def test_who_does_not_take_gzip_gets_the_plain_file(ask, encoding):
    status, headers, body = ask(SCRIPT, **({} if encoding is None else {"Accept-Encoding": encoding}))
    assert (status, "content-encoding" in headers) == (200, False)
    # A cache in between must not give this answer to who takes gzip, or the other way round.
    assert headers["vary"] == "Accept-Encoding"
    assert body == (STATIC / SCRIPT[1:]).read_bytes()


@pytest.mark.parametrize(
    ("encoding", "takes"),
    [("gzip", True), ("br;q=1, GZIP;q=0.5", True), ("*", True), ("*;q=0.1", True), ("gzip;q=0, *", False)],
)
def test_which_weights_accept_gzip(encoding, takes):
    assert _takes_gzip(Headers({"accept-encoding": encoding})) is takes


def test_a_head_request_says_the_same_without_the_file(ask):
    for path in ("/", SCRIPT):
        _, whole, _ = ask(path, **GZIP)
        status, headers, body = ask(path, "HEAD", **GZIP)
        assert (status, body) == (200, b"")
        for name in ("content-length", "content-encoding", "content-type", "etag", "vary", "cache-control"):
            assert headers[name] == whole[name]


def test_a_file_that_the_browser_has_is_not_sent_again(ask):
    _, plain, _ = ask(SCRIPT)
    _, packed, _ = ask(SCRIPT, **GZIP)
    # Other bytes are no strong match: a part of one must not be joined to a part of the other.
    assert packed["etag"] == f"W/{plain['etag']}"
    for tag in (packed["etag"], plain["etag"], f'"other", {packed["etag"]}'):
        status, headers, body = ask(SCRIPT, **GZIP, **{"If-None-Match": tag})
        assert (status, body) == (304, b"")
        assert headers["vary"] == "Accept-Encoding"
        assert "content-encoding" not in headers
    assert ask(SCRIPT, **GZIP, **{"If-None-Match": '"other"'})[0] == 200


def test_a_part_of_a_file_is_a_part_of_the_plain_file(ask):
    content = (STATIC / SCRIPT[1:]).read_bytes()
    _, packed, _ = ask(SCRIPT, **GZIP)
    status, headers, body = ask(SCRIPT, **GZIP, Range="bytes=10-29")
    assert (status, body) == (206, content[10:30])
    assert "content-encoding" not in headers
    assert headers["content-range"] == f"bytes 10-29/{len(content)}"
    # Whoever holds a part of the compressed file gets the whole one.
    status, _, body = ask(SCRIPT, **GZIP, Range="bytes=10-29", **{"If-Range": packed["etag"]})
    assert (status, body) == (200, content)


def test_nothing_of_a_request_is_compressed_with_the_page(ask):
    """A length that depended on both would let a stranger guess the one by the other."""
    _, _, page = ask("/", **GZIP)
    for path in ("/?invite=abc", "/?x=%3Cscript%3E&invite=" + "a" * 500):
        assert ask(path, **GZIP, Cookie="visit=abc; _streamlit_xsrf=def")[2] == page
    status, headers, body = ask("/health", **GZIP)
    assert (status, "content-encoding" in headers, body) == (200, False, b'{"status":"ok"}')


@pytest.mark.parametrize(
    "path", ["/static/js/../index.html", "/static/js/none.js", "/static//js", "/static/"]
)
def test_an_address_that_is_no_file_is_answered_as_before(ask, path):
    plain, packed = ask(path), ask(path, **GZIP)
    assert packed[0] == plain[0]
    assert packed[2] == plain[2]
    assert "content-encoding" not in packed[1]


def test_a_file_is_no_place_to_write(ask):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(SCRIPT, method, **GZIP)[0] == 405
