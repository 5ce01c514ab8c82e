"""Fixtures for every room: a database of either kind, and pairs to put into it.

`store_url` runs a test twice, on SQLite and on PostgreSQL (marked `postgres`, skipped where its server is not
installed). Each test has a database of its own that holds nothing yet: `Store.open(store_url, create=True)`.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import postgres
import pytest
from hypothesis import settings

from guard_eval.records import Pair, content_id

# A machine that does other things too is slow now and then; CI tries the same examples every time.
settings.register_profile("unhurried", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[object]:
    """A private PostgreSQL server; see `tests/support/postgres.py` for what it can do."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed; run: pip install 'guard-eval[postgres]'")
    binaries = postgres.binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed; run: apt-get install postgresql")
    if not postgres.can_run():
        pytest.skip("PostgreSQL's server does not run as root and there is no user postgres; make one")
    with postgres.running_server(binaries) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    url = postgres_server.new_schema()
    yield url
    postgres_server.drop_schema(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of SQLite and once of PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(scope="session")
def make_pairs() -> Callable[[int], list[Pair]]:
    """Return a function that makes `n` pairs of two methods, in position order, of two datasets in turn."""
    return _make_pairs


def _make_pairs(n: int, *, method_a: str = "guard", method_b: str = "top_k(k=50)") -> list[Pair]:
    pairs = []
    for number in range(n):
        ids = (content_id("test", number, method_a), content_id("test", number, method_b))
        pairs.append(
            Pair(
                id=Pair.make_id(method_a, method_b, *ids),
                dataset=("wikinews", "wikitext")[number % 2],
                prompt_id=f"prompt-{number}",
                prompt=f"The prompt of number {number}",
                method_a=method_a,
                method_b=method_b,
                continuation_a=ids[0],
                continuation_b=ids[1],
                text_a=f"text {number} of the first method",
                text_b=f"words {number} of the second",
                position=number,
            )
        )
    return pairs
