"""`guard-eval annotate`: serve the study to its raters."""

from __future__ import annotations

import shutil
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from sqlalchemy.engine import make_url

from annotation_app.server.launch import serve
from guard_eval.cli.console import StudyFolder, count_of, say, say_next
from guard_eval.errors import StudyError
from guard_eval.rubric import criteria, reworded
from guard_eval.store import Store
from guard_eval.study.folder import Study

LITTLE_ROOM = 200 * 2**20
"""Bytes. A rating takes less than a kilobyte; what fills a disk is something else, and soon."""


def command(
    folder: StudyFolder,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8501,
    address: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
    invite: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Print a link for this rater, new or not; an old one stops."),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A reverse proxy whose X-Forwarded-For and -Host are believed."),
    ] = None,
) -> None:
    """Serve the pairs to people, in a browser.

    Ctrl-C stops it, and nothing is lost: what the page calls saved is on disk.
    """
    study = Study.open(folder)
    with Store.open(study.database, study_hash=study.hash) as store:
        pairs = sum(pair.for_people for pair in store.pairs())
        if not pairs:
            raise StudyError(f"{folder} has no pairs yet; run: guard-eval pair {folder}")
        token = _token(store, invite) if invite else None
        people = sum(rater.kind == "person" for rater in store.raters())
        notices = _notices(study, store)
        open_places = store.open_places(study.plan)
        asked = criteria(study.settings.annotation.criteria, study.settings.rubric)
        store.set_criteria({each.name: each.words for each in asked})
    say(
        f"{count_of(pairs, 'pair')}, {study.settings.annotation.raters_per_pair} people each, "
        f"{people} invited"
    )
    if not people and not study.settings.annotation.recruitment.is_open:
        say(f"No rater is invited yet; in another terminal: guard-eval raters {folder} add NAME")
    if study.settings.annotation.recruitment.is_open:
        say(f"{count_of(open_places, 'place')} open for people who come without an invite")
    for notice in notices:
        say(f"Note: {notice}")

    def ready(url: str) -> None:
        url = reached_at(address, url)
        with Store.open(study.database, study_hash=study.hash) as store:
            store.set_app_address(url)
        say(f"Serving on {url} (Ctrl-C stops); in another terminal: guard-eval progress {folder} --watch")
        if token:
            say(f"{invite}: {url.rstrip('/')}/?invite={token}")
        if proxy is None and not is_local(address):
            say(
                f"Other machines of the network reach it at {url}. There is NO TLS: anyone who listens in "
                "reads links and answers, and can answer in a rater's place. In a shared network, put a "
                "proxy with TLS before it: docs/deployment.md"
            )

    code = serve(folder, port=port, address=address, on_ready=ready, proxy=proxy)
    say_next(f"guard-eval progress {folder}")
    raise typer.Exit(code)


def is_local(address: str) -> bool:
    """Return whether only this machine reaches an address on which it listens."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def reached_at(address: str, url: str) -> str:
    """Return where others reach an app that listens on `address` and was found at `url`."""
    every = {"0.0.0.0": (socket.AF_INET, "192.0.2.1"), "::": (socket.AF_INET6, "2001:db8::1")}  # noqa: S104
    if address not in every:
        return url
    family, far = every[address]
    try:
        # Nothing is sent: the system says from which address it would be (RFC 5737 and 3849 keep these free).
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            own = str(probe.getsockname()[0])
    except OSError:  # no network
        own = socket.gethostname()
    host = f"[{own}]" if ":" in own else own
    return urlsplit(url)._replace(netloc=f"{host}:{urlsplit(url).port}").geturl()


def _token(store: Store, name: str) -> str:
    """Return a token for a rater: a new one's first, or a new one in place of those given before."""
    exists = any(rater.name == name and rater.kind == "person" for rater in store.raters())
    return store.link(name) if exists else store.invite(name)[1]


def _notices(study: Study, store: Store) -> list[str]:
    """Return what the owner should know before raters come."""
    settings, notices = study.settings.annotation, []
    first = store.study_hash()
    if first is not None and first != study.hash:
        notices.append(
            "study.toml is not what it was when the first verdict came. Raters go on under the new settings, "
            "and the report will call the results exploratory."
        )
    asked = criteria(settings.criteria, study.settings.rubric)
    notices += [
        f"a criterion that has verdicts is worded differently now: {change}. Give the new words another "
        "name, or take the change back."
        for change in reworded(store.criteria(), asked)
    ]
    if settings.gold_every is not None and not store.gold():
        notices.append(
            "annotation.gold_every is set, but there are no gold pairs; "
            f"add some: guard-eval gold {study.folder} FILE"
        )
    if settings.recruitment.is_open and settings.pairs_per_rater is None:
        notices.append("every participant may rate every pair; annotation.pairs_per_rater sets a limit")
    room = _room(study)
    if room is not None and room < LITTLE_ROOM:
        notices.append(f"the disk has {room / 2**20:.0f} MiB left; when it is full, nothing can be saved")
    return notices


def _room(study: Study) -> int | None:
    """Return the bytes left on the database's disk; None for a server's."""
    url = make_url(study.database)
    if url.get_backend_name() != "sqlite":
        return None
    return shutil.disk_usage(Path(str(url.database)).parent).free
