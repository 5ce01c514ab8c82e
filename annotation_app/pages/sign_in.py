"""How a rater signs in: by an invite, from Prolific, or with an account of an OIDC provider.

Every rater is signed in by a token, which is then in the page's address, where a refreshed page finds
it again. Prolific's parameters and a provider's subject become a new rater at the first visit, where the
study has a place for one, and mean the same rater at every later visit. Prolific's parameters are not signed:
they let in the browser that came with them first, by its cookie, and no other one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from urllib.parse import parse_qs, urlsplit

import streamlit as st
from streamlit.errors import StreamlitAuthError

from annotation_app.pages import endings, intake, markup, session
from annotation_app.pages.markup import label
from annotation_app.pages.session import AppState, RaterSession
from guard_eval.records import content_id
from guard_eval.store.schema import LONGEST_NAME
from guard_eval.study.annotation_settings import Recruitment

INVITE_COMMAND = "guard-eval raters STUDY add NAME"

BROWSER_COOKIE = "guard_eval_browser_"
"""How the name of the cookie begins that the server gives to every browser: a random secret.

Each is given under a name of its own, so that none takes the place of another. Of two tabs opened at once,
before there was any, either has its own; whichever connects later has both, and is known by the other's.
"""

_MOST_COOKIES = 10

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")

_PARAMETERS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
_PARAMETER = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A visitor without an invite.

    Attributes:
        source: `prolific` or `oidc`.
        external_id: The visitor's identity there.
        detail: What else is noted of this visit.
    """

    source: str
    external_id: str
    detail: Mapping[str, str]


def enter(app: AppState) -> RaterSession | None:
    """Sign a visitor in, or show the page on which to do so."""
    token = st.query_params.get("invite", "")
    words = session.words().sign_in
    visit = session.sign_in(app, token) if token else None
    refused = words.unknown if token else ""
    recruitment = app.settings.recruitment
    if visit is None:
        arrival = from_prolific(st.query_params, recruitment) or from_account(recruitment)
        if arrival is not None:
            visit, refusal = _enrol(app, arrival)
            if visit is None and refusal in {"", "full"}:  # revoked, or there is no place
                endings.show(app, "no_place" if refusal else "ended")
                return None
            refused = {"elsewhere": words.other_browser, "crowded": words.crowded}.get(refusal, "")
    if visit is None:
        _show(app, refused)
        return None
    st.session_state["visit"] = visit
    return visit


def from_prolific(parameters: Mapping[str, str], recruitment: Recruitment) -> Arrival | None:
    """Return the visitor from Prolific, by the parameters that it puts into the address."""
    person, study, visit = (parameters.get(name, "") for name in _PARAMETERS)
    valid = recruitment.prolific and _PARAMETER.fullmatch(person)
    if not valid or _is_other_study(parameters, recruitment):
        return None
    detail = {
        name: value for name, value in (("study", study), ("session", visit)) if _PARAMETER.fullmatch(value)
    }
    return Arrival(source="prolific", external_id=person, detail=detail)


def _is_other_study(parameters: Mapping[str, str], recruitment: Recruitment) -> bool:
    """Return whether a visitor comes from another study on Prolific than the one in study.toml."""
    expected = recruitment.prolific_study
    return expected is not None and "PROLIFIC_PID" in parameters and parameters.get("STUDY_ID") != expected


def from_account(recruitment: Recruitment) -> Arrival | None:
    """Return the visitor who signed in with an account; neither name nor address is stored."""
    # Without a provider in secrets.toml the user has no such attribute.
    if not recruitment.oidc or not getattr(st.user, "is_logged_in", False):
        return None
    issuer, subject = st.user.get("iss"), st.user.get("sub")
    if not subject:
        return None
    person = f"{issuer} {subject}"
    return Arrival(
        source="oidc",
        external_id=person if len(person) <= LONGEST_NAME else content_id("oidc", issuer, subject),
        detail={"issuer": str(issuer)},
    )


def _enrol(app: AppState, arrival: Arrival) -> tuple[RaterSession | None, str]:
    """Return the visitor's session, or None and why: nothing where the rater is revoked."""
    address, browsers = network_address(), browser_secrets()
    found = app.store.enrol(
        arrival.external_id,
        arrival.source,
        app.plan,
        # A provider of accounts vouches for who comes; Prolific's parameters anybody can write.
        browsers=browsers if arrival.source == "prolific" else None,
        neighbours=app.addresses.of(address),
        left=[number for browser in browsers for number in app.browsers.of(browser)],
    )
    if found.rater is None:
        if found.refusal == "crowded":
            session.warn(
                "a participant was turned away: from the same address too many came within a day and rated "
                "nothing. If a proxy is before this server, name it: --proxy ADDRESS"
            )
        return None, found.refusal or ""
    app.addresses.add(address, found.rater.id)
    for browser in browsers:
        app.browsers.add(browser, found.rater.id)
    visit = session.sign_in(app, found.token)
    if visit is not None:
        intake.note_arrival(
            app.store, visit.rater, visit.intake, {"source": arrival.source, **arrival.detail}
        )
        visit.enrolled = True
        # In place of the parameters: a refreshed page need not enrol anybody.
        st.query_params.from_dict({"invite": found.token})
    return visit, ""


def network_address() -> str | None:
    """Return the network that the visitor comes from; None for this machine itself."""
    return network_of(st.context.ip_address)


def network_of(address: str | None) -> str | None:
    """Return what one visitor can have of addresses: one of IPv4, and 2^64 of IPv6.

    >>> network_of("2001:db8:1:2:3:4:5:6"), network_of("::ffff:192.0.2.7"), network_of("192.0.2.7")
    ('2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7')
    """
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return None
    plain = getattr(found, "ipv4_mapped", None) or found
    return str(plain) if plain.version == 4 else str(ip_network(f"{plain}/64", strict=False))


def browser_secrets() -> list[str]:
    """Return the browser's secrets; one that forbids cookies has another one at every visit."""
    cookies = sorted(st.context.cookies.to_dict().items())
    given = {value: None for name, value in cookies if name.startswith(BROWSER_COOKIE)}
    return [value for value in given if _SECRET.fullmatch(value)][:_MOST_COOKIES] or [secrets.token_urlsafe()]


def personal_link(visit: RaterSession) -> str:
    """Return the address that brings a rater back, in any browser."""
    return f"{(st.context.url or '').rstrip('/')}/?invite={visit.token}"


def _show(app: AppState, refused: str) -> None:
    """Show the ways to sign in; a pasted code goes into the address, and the page is loaded again."""
    recruitment, texts = app.settings.recruitment, session.words().sign_in
    if recruitment.prolific and not refused and _is_other_study(st.query_params, recruitment):
        refused = texts.elsewhere
    with markup.page(texts.title, texts.lead):
        if not recruitment.is_open and not any(rater.kind == "person" for rater in app.store.raters()):
            st.html(markup.message(texts.uninvited, kind="hint") + markup.command(INVITE_COMMAND))
        if refused:
            st.html(markup.message(refused, kind="problem"))
        elif recruitment.prolific:
            st.html(markup.message(texts.prolific, kind="hint"))
        with st.form("sign-in", border=False):
            code = st.text_input(label(texts.field), key="code", max_chars=2000, autocomplete="off")
            pressed = st.form_submit_button(label(texts.button), key="enter", type="primary")
        if recruitment.oidc and st.button(label(texts.account), key="account"):
            _sign_in_with_account()
    if pressed and code.strip():
        st.query_params["invite"] = _code(code.strip())
        st.rerun()


def _code(pasted: str) -> str:
    """Return the code in what was pasted, which is often the whole link."""
    found = parse_qs(urlsplit(pasted).query).get("invite") if "?" in pasted else None
    return found[0] if found else pasted


def _sign_in_with_account() -> None:
    try:
        st.login()
    except (StreamlitAuthError, OSError) as error:
        session.log(error, "signing in with an account")
        st.html(markup.message(session.words().sign_in.account_trouble, kind="problem"))
