"""Databases for tests, of either system: copies of one that has the tables, quicker than making them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from postgres import Server

from guard_eval.store import Store

KINDS = ("sqlite", "postgres")


class Databases:
    """Makes them, takes them away for a while, and removes them."""

    def __init__(self, folder: Path, server: Callable[[], Server]) -> None:
        self._folder = folder
        self._server = server
        self._templates: dict[str, str] = {}

    def new(self, kind: str, folder: Path) -> str:
        """Make a study's database without rows; return its URL. SQLite's is `folder`/study.db."""
        if kind == "sqlite":
            shutil.copy(self._template(kind), folder / "study.db")
            return f"sqlite:///{folder / 'study.db'}"
        return self._server().new_database(f"TEMPLATE {self._template(kind)}")

    def drop(self, url: str) -> None:
        """Remove a server's database; a file goes with its folder."""
        if not url.startswith("sqlite"):
            self._server().drop_database(url)

    @contextmanager
    def away(self, url: str) -> Iterator[None]:
        """Let nobody reach a database: its file is elsewhere, or its server ends all that is connected."""
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

    def clear(self, url: str) -> None:
        """Remove the tables, as if nothing had been made there yet."""
        if url.startswith("sqlite"):
            file = Path(url.removeprefix("sqlite:///"))
            for path in file.parent.glob(f"{file.name}*"):
                path.unlink()
        else:
            self._server().clear(url)

    def _template(self, kind: str) -> str:
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


def setting(url: str) -> str:
    """Return the line of study.toml that names a database; the study's own file is named by none."""
    return "" if url.startswith("sqlite") else f'database = "{url}"\n'
