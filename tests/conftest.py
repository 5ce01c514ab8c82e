"""Fixtures for all tests: SQLite and PostgreSQL databases, and pairs to store.

A test that is marked `both_databases` and asks for a database by any of the fixtures here runs twice, on
SQLite and on PostgreSQL. Others run on SQLite, and all of them on one system by `pytest --database postgres`.
Those on PostgreSQL are marked `postgres`, and skipped where its server is not installed. Each test has a
database of its own.
"""

import contextlib
import importlib.util
import os
import re
import signal
import sqlite3
import sys
from pathlib import Path

import postgres
import pytest
from databases import KINDS, Databases
from factories import make_pair
from hypothesis import HealthCheck, settings
from sqlalchemy.exc import OperationalError

from guard_eval import proposals
from guard_eval.database_url import HOSTS_VARIABLE
from guard_eval.store import Store

# A machine that does other things too is slow now and then. The same examples are tried every time, and other
# ones by `make nightly`.
settings.register_profile(
    "unhurried",
    deadline=None,
    derandomize="EXPLORE" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")


# Tests, and what they start, compute with one processor: tensors are small, and threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the commands propose begins with the program's name where a shell finds it.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# Where a shell started the tests in the background, or under nohup, these are ignored, and by every child.
for _signal, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)


def pytest_addoption(parser):
    parser.addoption("--database", choices=KINDS, help="run every test that needs a database on this system")


_SLOW_MODULE = re.compile(r"^pytestmark = (?:\[\s*)?pytest\.mark\.(slow|nightly)", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """Leave out slow modules before they are imported: importing them takes longer than most quick tests."""
    left_out = {"not slow": {"slow", "nightly"}, "not nightly": {"nightly"}}.get(config.option.markexpr)
    if left_out is None or collection_path.suffix != ".py":
        return None
    mark = _SLOW_MODULE.search(collection_path.read_text(encoding="utf-8"))
    return True if mark and mark[1] in left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow, for `make quick`, what needs a browser or PostgreSQL; put files of slow tests first."""
    slow = set()
    for item in items:
        if any(map(item.get_closest_marker, ("browser", "postgres", "nightly"))):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow"):
            slow.add(item.path)
    if "PYTEST_XDIST_WORKER" in os.environ:  # which takes a file after the other: a long one must not be last
        items.sort(key=lambda item: item.path not in slow)


def pytest_generate_tests(metafunc):
    if "database_kind" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("database")
    both = metafunc.definition.get_closest_marker("both_databases") is not None
    kinds = [chosen] if chosen else KINDS if both else ["sqlite"]
    if kinds != ["sqlite"]:
        marks = {"postgres": pytest.mark.postgres}
        params = [pytest.param(kind, marks=marks.get(kind, ())) for kind in kinds]
        metafunc.parametrize("database_kind", params, indirect=True)


@pytest.fixture(autouse=True)
def _no_code_of_earlier_tests():
    """Forget the files of `--code`. Within a process, proposed commands would name them in later tests."""
    yield
    proposals.code_files.clear()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk():
    """Leave it to the system when an SQLite file is on disk: no test ends with the machine's power."""
    connect = Store._connect_to_sqlite

    def connect_quickly(store):
        connection = connect(store)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_connect_to_sqlite", connect_quickly)
        yield


@pytest.fixture(scope="session")
def postgres_server():
    """A private PostgreSQL server; see `tests/support/postgres.py` for what it can do."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed; run: pip install 'guard-eval[postgres]'")
    binaries = postgres.binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed; run: apt-get install postgresql")
    if not postgres.can_run():
        pytest.skip("PostgreSQL's server does not run as root and there is no user postgres; make one")
    with postgres.running_server(binaries) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOSTS_VARIABLE, str(server.socket))
        yield server


@pytest.fixture(scope="session")
def databases(request, tmp_path_factory):
    """What makes databases for tests; the server is started for the first that needs it."""
    return Databases(tmp_path_factory.mktemp("template"), lambda: request.getfixturevalue("postgres_server"))


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty PostgreSQL database."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def database_kind(request):
    """On which system the test's databases are."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def new_database(database_kind, databases):
    """Return a function that makes a study's database without rows for a folder, and returns its URL."""
    urls = []

    def make(folder):
        urls.append(databases.new(database_kind, folder))
        return urls[-1]

    yield make
    for url in urls:
        databases.drop(url)


@pytest.fixture
def store_url(new_database, tmp_path):
    """The URL of a study's database without rows."""
    return new_database(tmp_path)


@pytest.fixture
def empty_url(database_kind, request, tmp_path):
    """The URL of a database without tables; of SQLite, with no file yet."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(scope="session")
def make_pairs():
    """Return a function that makes `n` pairs of two methods, in position order, of two datasets in turn."""
    return _make_pairs


def _make_pairs(n, **changes):
    return [make_pair(number, **changes) for number in range(n)]


@pytest.fixture(scope="session")
def tex():
    """The source of the paper, where it lies beside the repository."""
    paper = Path(__file__).parents[2] / "shared" / "paper"
    if not paper.is_dir():
        pytest.skip(f"{paper} is not here: the paper's source does not lie in the repository")
    return "".join(path.read_text(encoding="utf-8") for path in paper.glob("*.txt"))


@pytest.fixture
def load_own_strategies(monkeypatch, tmp_path):
    """Return a function that loads strategies from source code. They are removed after the test."""
    from own_strategies import forget_own_strategies

    from guard_eval.generation.strategies import own

    forget_own_strategies(monkeypatch)

    def load(source, name="mine.py"):
        path = tmp_path / name
        path.write_text(source, encoding="utf-8")
        own.load_strategies(path)

    return load


@pytest.fixture
def failing_commits(monkeypatch):
    """Return a context in which every transaction fails at its end, as on a full disk."""
    begin_write = Store.begin_write

    @contextlib.contextmanager
    def fail(store):
        is_nested = store._transaction is not None
        with begin_write(store) as transaction:
            yield transaction
            if not is_nested:
                raise OperationalError("COMMIT", {}, sqlite3.OperationalError("database or disk is full"))

    @contextlib.contextmanager
    def break_commits():
        with monkeypatch.context() as patch:
            patch.setattr(Store, "begin_write", fail)
            yield

    return break_commits
