"""How a store is opened and closed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

from guard_eval.store import upgrade
from guard_eval.store.connection import Database
from guard_eval.store.handout.orders import Orders


class OpenDatabase:
    """An open database, and what is remembered while it is."""

    def __init__(self, database: Database, *, study_hash: str | None, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._study_hash = study_hash
        self._clock = clock
        self._orders = Orders()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        study_hash: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Open the database at `url`.

        Args:
            url: `sqlite:///file` or `postgresql+psycopg://user@host/database`.
            create: Make the file and the schema where they are missing, and bring an older schema up to date.
            study_hash: `Study.hash`, to be kept with the first verdict.
            clock: What says the time, with a time zone; default: this machine, or the database's server.

        Raises:
            StudyError: There is no such database, it is not a study's, its schema is unknown to this package,
                its folder is not writable or its server not reachable. No message holds a password.
        """
        database = Database(url)
        try:
            upgrade.prepare(database, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database, study_hash=study_hash, clock=clock or database.clock)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
