"""Serve a study to its raters."""

from __future__ import annotations

import errno
import importlib.util
import math
import shutil
import socket
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url

from annotation_app import wording
from guard_eval import progress
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import PEOPLE
from guard_eval.results import Result
from guard_eval.rubric import criteria, reworded
from guard_eval.store import Store, raters, settings
from guard_eval.store import pairs as store_pairs
from guard_eval.store.manage import UNKNOWN_ADDRESS
from guard_eval.study import Study
from guard_eval.study.declared import compare_declared

LOW_DISK_BYTES = 200 * 2**20
"""A rating takes less than a kilobyte; what fills a disk is something else, and soon."""

PROVIDER_KEYS = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
"""What Streamlit's secrets.toml must say about the provider, in its table `[auth]`."""

NO_TLS = (
    "There is NO TLS: anyone who listens in the network reads links and answers, and can answer in a rater's "
    "place. In a shared network, put a proxy with TLS before it: docs/deployment.md"
)


@dataclass(frozen=True, kw_only=True)
class Served(Result):
    """A study that was served at the address `url`."""

    url: str


def annotate(
    study: Study, /, *, port: int = 8501, address: str = "127.0.0.1", invite: str | None = None
) -> Served:
    """Serve the pairs to people, in a browser.

    Ctrl-C stops it, and nothing is lost: what the page calls saved is on disk.

    Args:
        study: The study's folder.
        port: The port to listen on; 0 takes a free one.
        address: The address to listen on; 0.0.0.0 for other machines.
        invite: Print a link for this rater, new or not; an old one stops.

    Raises:
        MissingExtraError: Streamlit, or what the study needs with it, is not installed.
        StudyError: The study, its wording or its database cannot be used, the port is taken, or the address
            is not one of this machine's.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise MissingExtraError("annotate", "streamlit")
    from annotation_app import server, state  # noqa: PLC0415 (of an extra)

    check_sign_in(study)
    with _bind(address, port) as opened:
        url = address_for_others(address, opened.getsockname()[1])
        with Store.open(study.database, declared=study.declared) as store:
            lines = _prepare(study, store, url)
            link = (f"{invite}: {url}/?invite={_renew_invite(store, invite)}",) if invite else ()
        if not is_local(address):
            lines.append(NO_TLS)

        def announce() -> None:
            progress.notice("\n".join(lines))
            progress.show(Result(lines=link))  # asked for, so that --quiet does not hide it

        state.serve_study(study)
        with suppress(KeyboardInterrupt):
            server.run(opened, announce)
    return Served(url=url, next=(study.command("status"),))


def _prepare(study: Study, store: Store, url: str) -> list[str]:
    """Note what is served, warn of what the owner should know, and return what to say once it is served."""
    annotation = study.settings.annotation
    pairs = sum(pair.for_people for pair in store_pairs.read(store))
    if not pairs:
        raise StudyError(f"{study.folder} has no pairs yet; run: {study.command('pair')}")
    people = sum(rater.kind == "person" and not rater.is_out for rater in raters.read(store))
    progress.notice(f"{pairs} pairs, {annotation.raters_per_pair} people each, {people} invited")
    if annotation.recruitment.is_open:
        progress.notice(f"{raters.count_openings(store, study.plan)} more people can come without an invite")
    for warning in [*_setting_warnings(study, store), *_crew_warnings(study, pairs, people)]:
        progress.warn(warning)
    asked = criteria(annotation.criteria, study.settings.rubric)
    settings.set_criteria(store, {each.name: each.words for each in asked})
    lines, served_at = [f"Serving on {url} (Ctrl-C stops)"], settings.read(store, settings.APP_ADDRESS)
    settings.set_app_address(store, url)
    if people and (served_at is None or urlsplit(served_at).port != urlsplit(url).port):
        lines.append(
            f"Links that begin with {served_at or UNKNOWN_ADDRESS} work if they begin with {url} instead."
        )
    return lines


def _renew_invite(store: Store, name: str) -> str:
    """Return a new token for a rater, who is added if new."""
    known = any(rater.name == name and rater.kind == "person" for rater in raters.read(store))
    return raters.renew_link(store, name) if known else raters.invite(store, name)[1]


def _setting_warnings(study: Study, store: Store) -> list[str]:
    annotation, warnings = study.settings.annotation, []
    declared = compare_declared(study.declared, {PEOPLE: settings.declared(store, PEOPLE)})[0]
    if declared.changes:
        warnings.append(
            f"settings changed after the first verdict: {'; '.join(declared.changes)}. Raters go on under "
            "the new ones, and the report will call the results exploratory."
        )
    warnings += [
        f"a criterion that has verdicts is worded differently now: {change}. Give the new words another "
        "name, or take the change back."
        for change in reworded(settings.criteria(store), criteria(annotation.criteria, study.settings.rubric))
    ]
    if annotation.gold_every is not None and not store_pairs.read_gold(store):
        warnings.append(
            "annotation.gold_every is set, but there are no gold pairs; name a file of them as "
            f"annotation.gold, and run: {study.command('pair')}"
        )
    consent = wording.of_study(study)["consent"]
    if annotation.pages.consent and consent == wording.shipped_wording(annotation.language)["consent"]:
        warnings.append(
            "the consent page has the stock text, which names no institution, duration or contact; write "
            "your own [consent] in the file that annotation.wording names"
        )
    url = make_url(study.database)
    if url.get_backend_name() == "sqlite":
        free = shutil.disk_usage(Path(str(url.database)).parent).free
        if free < LOW_DISK_BYTES:
            warnings.append(
                f"the disk has {free / 2**20:.0f} MiB left; when it is full, nothing can be saved"
            )
    return warnings


def _crew_warnings(study: Study, pairs: int, people: int) -> list[str]:
    """Return what is wrong with the number of people invited, or with that of the pairs each may rate."""
    annotation = study.settings.annotation
    if annotation.recruitment.is_open:
        limited = annotation.pairs_per_rater is not None
        return (
            []
            if limited
            else ["every participant may rate every pair; annotation.pairs_per_rater sets a limit"]
        )
    ratings = pairs * annotation.raters_per_pair
    share = min(annotation.pairs_per_rater or pairs, pairs)
    needed = max(annotation.raters_per_pair, math.ceil(ratings / share))
    invited = f"{people} people are invited and the pairs need {needed}"
    if people < needed:
        return [f"{invited}; invite more: {study.command('raters add', 'NAME')}"]
    if people > needed:
        fair = f"annotation.pairs_per_rater = {math.ceil(ratings / people)} gives everyone a share"
        return [f"{invited}: who comes late finds nothing left. {fair}"]
    return []


def check_sign_in(study: Study) -> None:
    """Check that raters can sign in as the study says.

    Raises:
        StudyError: The secrets.toml for `oidc = true` is missing or incomplete.
        MissingExtraError: `oidc = true`, and Authlib is not installed.
    """
    if not study.settings.annotation.recruitment.oidc:
        return
    if importlib.util.find_spec("authlib") is None:
        raise MissingExtraError("oidc", "authlib")
    # Where Streamlit searches; what a later file says counts.
    paths = [home / ".streamlit" / "secrets.toml" for home in (Path.home(), Path.cwd())]
    provider: dict[str, object] = {}
    for path in filter(Path.is_file, paths):
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8")).get("auth", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            # Never its content: these are secrets.
            raise StudyError(f"cannot read {path} as TOML: {type(error).__name__}; fix it") from None
        provider |= table if isinstance(table, dict) else {}
    missing = [key for key in PROVIDER_KEYS if not provider.get(key)]
    if missing:
        raise StudyError(
            "annotation.recruitment.oidc = true needs the provider in Streamlit's secrets.toml; write "
            f"{', '.join(missing)} into the table [auth] of {paths[-1]}"
        )


def _bind(address: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address of this machine."""
    if not 0 <= port <= 65535:
        raise StudyError(f"port {port} does not exist; choose one from 1024 to 65535")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=2048)
    except PermissionError:
        raise StudyError(f"port {port} is reserved to the system; choose one from 1024 to 65535") from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL or (error.errno or 0) < 0:  # below 0: no name that is known
            raise StudyError(
                f"{address!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for every network"
            ) from None
        raise StudyError(
            f"port {port} on {address} is taken: perhaps the app is running already; stop that program, or "
            f"choose another port, such as --port {port + 1}"
        ) from None


def is_local(address: str) -> bool:
    """Return whether only this machine reaches an address on which it listens."""
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return address == "localhost"


def address_for_others(address: str, port: int) -> str:
    """Return the URL at which others reach an app that listens on `address`."""
    every = {"0.0.0.0": (socket.AF_INET, "192.0.2.1"), "::": (socket.AF_INET6, "2001:db8::1")}  # noqa: S104
    if address in every:
        family, far = every[address]
        try:
            # Nothing is sent: the system says from where it would be (RFC 5737 and 3849).
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                address = str(probe.getsockname()[0])
        except OSError:  # no network
            address = socket.gethostname()
    return f"http://{f'[{address}]' if ':' in address else address}:{port}"
