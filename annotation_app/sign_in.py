"""Sign raters in: by an invite, from Prolific, or with an account of an OIDC provider.

Every rater is signed in by a token, which is then in the page's address, where a reloaded page finds it.
Prolific's parameters and a provider's subject become a new rater at the first visit, if the study has work
for one, and mean the same rater at every later visit. Prolific's parameters are not signed: they let in the
browser that came with them first, by its cookie, and no other one.
"""

import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

import streamlit as st
from streamlit.errors import StreamlitAuthError

from annotation_app import endings, markup, state
from annotation_app.markup import escape_label
from annotation_app.state import App, Visit
from guard_eval.records import content_id
from guard_eval.store import raters
from guard_eval.store.sql.schema import LONGEST_NAME
from guard_eval.study.settings import Recruitment

BROWSER_COOKIE = "guard_eval_browser_"
"""How the name of the cookie begins that the server gives to every browser: a random secret.

Each has a name of its own, so that none replaces another. Of two tabs opened at once, before there was any,
either has its own; whichever connects later has both, and is known by the other's.
"""

_PARAMETER = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Visitor(NamedTuple):
    """A visitor without an invite: the source `prolific` or `oidc`, the id, and further details."""

    source: str
    external_id: str
    detail: dict[str, str]


def sign_visitor_in(app: App) -> Visit | None:
    """Sign a visitor in, or show the sign-in page."""
    recruitment = app.settings.recruitment
    texts = app.words.sign_in
    token = st.query_params.get("invite", "")
    visit = state.sign_in(app, token) if token else None
    arrival = (
        None
        if visit
        else read_prolific_arrival(st.query_params, recruitment) or read_account_arrival(recruitment)
    )
    refused = texts.unknown if token else ""
    if arrival is not None:
        # A provider of accounts vouches for who comes; anybody can write Prolific's parameters.
        browsers = read_browser_secrets() if arrival.source == "prolific" else None
        enrolment = raters.enrol(app.store, arrival.external_id, arrival.source, app.plan, browsers=browsers)
        visit = state.sign_in(app, enrolment.token)
        if visit is None and enrolment.refusal != "elsewhere":  # revoked, or nothing is left to rate
            endings.show_ending(app, "no_place" if enrolment.refusal else "ended")
            return None
        refused = texts.other_browser
    if visit is None:
        _show_sign_in(app, refused)
        return None
    if arrival is not None:
        detail = {"source": arrival.source, **arrival.detail}
        if detail not in visit.progress["arrival"]:
            state.note_progress(app, visit, "arrival", detail)
        # In place of the parameters: a reloaded page need not enrol anybody.
        st.query_params.from_dict({"invite": visit.token})
    st.session_state["visit"] = visit
    return visit


def read_prolific_arrival(parameters: Mapping[str, str], recruitment: Recruitment) -> Visitor | None:
    """Return the visitor from Prolific, according to the parameters in the address."""
    names = {"person": "PROLIFIC_PID", "study": "STUDY_ID", "session": "SESSION_ID"}
    valid = {
        key: parameters[name] for key, name in names.items() if _PARAMETER.fullmatch(parameters.get(name, ""))
    }
    person = valid.pop("person", "")
    is_theirs = recruitment.prolific and not _is_other_study(parameters, recruitment)
    if not is_theirs or not raters.is_external_id("prolific", person):
        return None
    return Visitor("prolific", person, valid)


def _is_other_study(parameters: Mapping[str, str], recruitment: Recruitment) -> bool:
    """Return whether a visitor comes from another study on Prolific than the one in study.toml."""
    expected = recruitment.prolific_study
    return expected is not None and "PROLIFIC_PID" in parameters and parameters.get("STUDY_ID") != expected


def read_account_arrival(recruitment: Recruitment) -> Visitor | None:
    """Return the visitor who signed in with an account. Name and e-mail address are not stored."""
    # Without a provider in secrets.toml the user has no such attribute.
    if not recruitment.oidc or not getattr(st.user, "is_logged_in", False):
        return None
    issuer = st.user.get("iss")
    subject = st.user.get("sub")
    account = f"{issuer} {subject}"
    external_id = account if len(account) <= LONGEST_NAME else content_id("oidc", account)
    return Visitor("oidc", external_id, {"issuer": str(issuer)}) if subject else None


def read_browser_secrets() -> list[str]:
    """Return the browser's secrets. A browser without cookies has a new one at every visit."""
    cookies = st.context.cookies.to_dict()
    ours = [cookies[name] for name in sorted(cookies) if name.startswith(BROWSER_COOKIE)]
    return list(dict.fromkeys(ours))[:10] or [secrets.token_urlsafe()]


def _show_sign_in(app: App, refused: str) -> None:
    """Show how to sign in, and why this visitor is not signed in."""
    recruitment = app.settings.recruitment
    texts = app.words.sign_in
    if recruitment.prolific and not refused:
        refused = texts.elsewhere if _is_other_study(st.query_params, recruitment) else texts.prolific
    with markup.show_page(texts.title, texts.lead):
        if refused:
            st.html(markup.format_problem(refused))
        if recruitment.oidc and st.button(escape_label(texts.account), key="account"):
            try:
                st.login()
            except (StreamlitAuthError, OSError) as error:
                state.log_error(error, "signing in with an account")
                st.html(markup.format_problem(app.words.trouble.lead))
