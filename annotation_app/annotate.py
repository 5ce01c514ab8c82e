"""The command `guard-eval annotate`: serve a study's pairs to raters in a browser."""

import importlib.util
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address

from annotation_app.state import App, serve_study
from guard_eval import progress
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import PEOPLE, record
from guard_eval.results import Result
from guard_eval.rubric import Criterion, select_criteria
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters, settings
from guard_eval.store.manage import LOCAL_ADDRESS
from guard_eval.store.showings import slots
from guard_eval.study import Study, wording
from guard_eval.study.judge_settings import CONTINUATIONS

_PRACTISED = {CONTINUATIONS, "texts"}
"""The values of `texts` in study.toml for which the shipped practice pairs are suitable."""

_OWN_WORDING = 'in the file that wording = "…" of [annotation] names, such as wording.toml'

NO_TLS = (
    "There is NO TLS: anyone who listens in the network reads links and answers, and can answer in a rater's "
    "place. In a shared network, put a proxy with TLS before it: docs/deployment.md"
)


@record
class ServedStudy(Result):
    """The result of the command `annotate`: the study was served at the address `url`."""

    url: str


def annotate(
    study: Study, /, *, port: int = 8501, address: str = "127.0.0.1", invite: str | None = None
) -> ServedStudy:
    """Serve the pairs to people in a browser.

    Stop the server with Ctrl-C. Nothing is lost: answers that the page calls saved are on disk.

    Args:
        study: The study's folder.
        port: The port to listen on; 0 chooses a free port.
        address: The address to listen on. With 0.0.0.0, other machines can reach the app.
        invite: Invite this rater and print the link. An earlier link of this rater stops working.

    Raises:
        MissingExtraError: Streamlit, or another package that the study needs, is not installed.
        StudyError: The study, its wording or its database cannot be used, the port is taken, or the address
            does not belong to this machine.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise MissingExtraError("annotate", "streamlit")
    from annotation_app.server import run_server  # noqa: PLC0415 (of an extra)

    if study.settings.annotation.recruitment.oidc and importlib.util.find_spec("authlib") is None:
        raise MissingExtraError("oidc", "authlib")
    with _bind_socket(address, port) as opened:
        url = make_url(address, opened.getsockname()[1])
        app = serve_study(study)
        store = app.store
        lines = _prepare_study_for_serving(study, app, url, invite)
        if not is_local_address(address):
            lines.append(NO_TLS)
        with store.begin_write():  # the rater's old link stays valid if the new one cannot be printed
            if invite:
                people = {rater.name for rater in raters.read_rater_progress(store) if rater.kind == "person"}
                _, token = raters.invite_rater(store, invite, renew=invite in people)
            progress.show_notice("\n".join(lines))  # visitors can connect now: the socket is open
            if invite:  # the user has asked for the link, so --quiet does not hide it
                progress.show_result(Result(lines=(f"{invite}: {url}/?invite={token}",)))
        with suppress(KeyboardInterrupt):
            run_server(opened)
    return ServedStudy(url=url, next=(study.format_command("status"),))


def _prepare_study_for_serving(study: Study, app: App, url: str, invite: str | None) -> list[str]:
    """Prepare the study for serving. Print warnings for its owner; return the lines to print at the start."""
    store = app.store
    annotation = app.settings
    pairs = sum(pair.for_people for pair in store_pairs.read_pairs(store))
    if not pairs:
        raise StudyError(f"{study.folder} has no pairs yet; run: {study.format_command('pair')}")
    slots.apply_hand_out_plan(store, app.plan)
    invited = {
        rater.name
        for rater in raters.read_rater_progress(store)
        if rater.kind == "person" and rater.state not in {"excluded", "revoked"}
    } | ({invite} - {None})
    progress.show_notice(
        f"pairs: {pairs}, people for each: {annotation.raters_per_pair}, invited: {len(invited)}"
    )
    if annotation.recruitment.prolific or annotation.recruitment.oidc:
        places = raters.count_free_rater_places(store, app.plan)
        progress.show_notice(f"{places} more people can come without an invite")
    asked_criteria = select_criteria(annotation.criteria, study.settings.rubric)
    for warning in _list_owner_warnings(study, app, asked_criteria):
        progress.warn(warning)
    settings.store_criteria_wording(store, {criterion.name: str(criterion) for criterion in asked_criteria})
    before = settings.read_setting(store, settings.APP_ADDRESS) or LOCAL_ADDRESS
    settings.store_setting(store, settings.APP_ADDRESS, url)
    lines = [f"Serving on {url} (Ctrl-C stops)"]
    if invited - {invite} and before != url:
        lines.append(f"Links that begin with {before} work if they begin with {url} instead.")
    return lines


def _list_owner_warnings(study: Study, app: App, asked_criteria: Sequence[Criterion]) -> Iterator[str]:
    """Yield warnings about the study's settings and pages for its owner."""
    annotation = app.settings
    pages = annotation.pages
    (people,) = settings.compare_with_first_verdicts(app.store, PEOPLE)
    if people.changes:
        yield (
            f"settings changed after the first verdict: {'; '.join(people.changes)}. Raters continue "
            "with the new settings, and the report will call the results exploratory."
        )
    for change in settings.describe_reworded_criteria(app.store, asked_criteria):
        yield (
            f"a criterion that has verdicts is worded differently now: {change}. Give the new words another "
            "name, or take the change back."
        )
    if annotation.gold_every is not None and not store_pairs.read_gold_pairs(app.store):
        yield (
            "annotation.gold_every is set, but there are no gold pairs; write a file of gold pairs, set "
            f"annotation.gold to it, and run: {study.format_command('pair')}"
        )
    shipped = wording.read_shipped_wording(annotation.language)
    practised = [pair.model_dump() for pair in app.words.practice.pairs]
    of_stories = study.settings.texts in _PRACTISED
    if pages.practice and not of_stories and practised == shipped["practice"]["pairs"]:
        yield (
            f"the practice pairs are continuations of stories, and not {study.settings.texts}; write your "
            f"own [[practice.pairs]] {_OWN_WORDING}, or set practice = false in annotation.pages"
        )
    if pages.consent and app.words.consent.model_dump() == shipped["consent"]:
        yield (
            "the consent page has the stock text, which names no institution, duration or contact; write "
            f"your own [consent] {_OWN_WORDING}"
        )


def _bind_socket(address: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address of this machine."""
    if not 0 <= port <= 65535:
        raise StudyError(f"port {port} does not exist; choose one from 1024 to 65535")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=2048)
    except OSError as error:
        raise StudyError(
            f"cannot listen on {address}, port {port}: {error}; choose an address of this "
            "machine and a free --port from 1024 to 65535. Perhaps this study is already served there"
        ) from None


def is_local_address(address: str) -> bool:
    """Return whether only this machine can reach an app that listens on this address."""
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return address == "localhost"


def make_url(address: str, port: int) -> str:
    """Return the URL at which other machines reach an app that listens on `address`."""
    host = socket.gethostname() if address in {"0.0.0.0", "::"} else address  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
