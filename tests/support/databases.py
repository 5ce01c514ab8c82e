"""SQLite and PostgreSQL databases for tests: copies of a database with tables, which are quick to make."""

import shutil
from contextlib import contextmanager
from pathlib import Path

from guard_eval.store import Store
from guard_eval.store.schema import query

KINDS = ("sqlite", "postgres")


class Databases:
    """Make databases, make them unavailable for a while, and remove them."""

    def __init__(self, folder, server):
        self._folder = folder
        self._server = server
        self._templates = {}

    def new(self, kind, folder):
        """Make a study's database without rows, and return the URL. For SQLite, it is `folder`/study.db."""
        if kind == "sqlite":
            shutil.copy(self._template(kind), folder / "study.db")
            return f"sqlite:///{folder / 'study.db'}"
        return self._server().new_database(f"TEMPLATE {self._template(kind)}")

    def drop(self, url):
        """Remove a server's database. A file is removed with its folder."""
        if not url.startswith("sqlite"):
            self._server().drop_database(url)

    @contextmanager
    def away(self, url):
        """Make a database unavailable: move the file, or let the server end and refuse connections."""
        if not url.startswith("sqlite"):
            self._server().shut(url)
            yield
            self._server().let_in(url)
            return
        file = Path(url.removeprefix("sqlite:///"))
        moved = {path: path.with_name(f"away-{path.name}") for path in file.parent.glob(f"{file.name}*")}
        for path, elsewhere in moved.items():
            path.rename(elsewhere)
        yield
        for path, elsewhere in moved.items():
            elsewhere.rename(path)

    def _template(self, kind):
        if kind not in self._templates:
            if kind == "sqlite":
                name = str(self._folder / "template.db")
                url = f"sqlite:///{name}"
            else:
                url = self._server().new_database()
                name = self._server().name_of(url)
            Store.open(url, create=True).close()
            self._templates[kind] = name
        return self._templates[kind]


def format_database_line(url):
    """Return the line of study.toml that names a database, or "" for the study's own file."""
    return "" if url.startswith("sqlite") else f'database = "{url}"\n'


def read_all_rows(db, table):
    """Return all rows of a table, with the values that Python code sees."""
    names = ", ".join(db.exec_driver_sql(f"SELECT * FROM {table}").keys())
    return list(query(f"SELECT {names} FROM {table}")(db))
