"""Sign raters in: by an invite, from Prolific, or with an account of an OIDC provider.

Every rater is signed in with a token. The token is then in the page's address, where a reloaded page finds
it. For a visitor from Prolific or a provider, the first visit adds a rater if the study has work, and later
visits find the same rater. Anybody can forge Prolific's parameters, so an id works only in the browser that
used the id first. A cookie identifies this browser.
"""

import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

import streamlit as st
from streamlit.errors import StreamlitAuthError

from annotation_app import markup, pages, state
from annotation_app.state import App, Visit
from guard_eval.records import make_content_id
from guard_eval.store import raters
from guard_eval.store.schema import LONGEST_NAME
from guard_eval.study.settings import Recruitment

BROWSER_COOKIE = "guard_eval_browser_"
"""The beginning of a cookie's name. The server gives every browser a cookie with a random secret.

Every cookie has a different name, so that no cookie replaces another. If two tabs of a new browser are opened
at the same time, each gets a cookie; the tab that connects later sends both, so the browser is recognised.
"""

_PARAMETER = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Visitor(NamedTuple):
    """A visitor without an invite: the source (`prolific` or `oidc`), the id, and further details."""

    source: str
    external_id: str
    detail: dict[str, str]


def sign_visitor_in(app: App) -> Visit | None:
    """Sign a visitor in, or show the sign-in page."""
    recruitment = app.settings.recruitment
    texts = app.words.sign_in
    token = st.query_params.get("invite", "")
    visit = state.start_visit(app, token) if token else None
    arrival = None
    if visit is None:
        arrival = read_visitor_from_prolific(st.query_params, recruitment) or read_visitor_from_account(
            recruitment
        )
    refused = texts.unknown if token else ""
    if arrival is not None:
        # A provider proves the visitor's identity, but anybody can write Prolific's parameters.
        browsers = read_browser_secrets() if arrival.source == "prolific" else None
        enrolment = raters.enrol_rater(
            app.store, arrival.external_id, arrival.source, app.plan, browser_secrets=browsers
        )
        visit = state.start_visit(app, enrolment.token)
        if visit is None and enrolment.refusal != "elsewhere":  # the rater is revoked, or no pair is open
            pages.show_ending_page(app, "no_place" if enrolment.refusal else "ended")
            return None
        refused = texts.other_browser
    if visit is None:
        _show_sign_in_page(app, refused)
        return None
    if arrival is not None:
        detail = {"source": arrival.source, **arrival.detail}
        if detail not in visit.progress["arrival"]:
            state.store_progress_note(app, visit, "arrival", detail)
        # The token replaces the parameters, so a reloaded page enrols nobody.
        st.query_params.from_dict({"invite": visit.token})
    st.session_state["visit"] = visit
    return visit


def read_visitor_from_prolific(url_parameters: Mapping[str, str], recruitment: Recruitment) -> Visitor | None:
    """Return the visitor from Prolific, read from the parameters in the address."""
    names = {"person": "PROLIFIC_PID", "study": "STUDY_ID", "session": "SESSION_ID"}
    valid = {
        key: url_parameters[name]
        for key, name in names.items()
        if _PARAMETER.fullmatch(url_parameters.get(name, ""))
    }
    person = valid.pop("person", "")
    is_theirs = recruitment.prolific and not _comes_from_other_prolific_study(url_parameters, recruitment)
    if not is_theirs or not raters.is_plausible_external_id("prolific", person):
        return None
    return Visitor("prolific", person, valid)


def _comes_from_other_prolific_study(url_parameters: Mapping[str, str], recruitment: Recruitment) -> bool:
    """Return whether the visitor comes from a study on Prolific that is not the one in study.toml."""
    expected = recruitment.prolific  # true if people from all studies may rate
    return (
        isinstance(expected, str)
        and "PROLIFIC_PID" in url_parameters
        and url_parameters.get("STUDY_ID") != expected
    )


def read_visitor_from_account(recruitment: Recruitment) -> Visitor | None:
    """Return the visitor who signed in with an account. Name and e-mail address are not stored."""
    # Without a provider in secrets.toml the user has no such attribute.
    if not recruitment.oidc or not getattr(st.user, "is_logged_in", False):
        return None
    issuer = st.user.get("iss")
    subject = st.user.get("sub")
    account = f"{issuer} {subject}"
    external_id = account if len(account) <= LONGEST_NAME else make_content_id("oidc", account)
    return Visitor("oidc", external_id, {"issuer": str(issuer)}) if subject else None


def read_browser_secrets() -> list[str]:
    """Return the browser's secrets. A browser that blocks cookies has a new secret at every visit."""
    cookies = st.context.cookies.to_dict()
    ours = [cookies[name] for name in sorted(cookies) if name.startswith(BROWSER_COOKIE)]
    return list(dict.fromkeys(ours))[:10] or [secrets.token_urlsafe()]


def _show_sign_in_page(app: App, refusal: str) -> None:
    """Show how to sign in, and the reason why this visitor is not signed in."""
    recruitment = app.settings.recruitment
    texts = app.words.sign_in
    if recruitment.prolific and not refusal:
        refusal = (
            texts.elsewhere
            if _comes_from_other_prolific_study(st.query_params, recruitment)
            else texts.prolific
        )
    with markup.show_narrow_page(texts.title, texts.lead):
        if refusal:
            markup.show_problem_message(refusal)
        if recruitment.oidc and st.button(markup.escape_label(texts.account), key="account"):
            try:
                st.login()
            except (StreamlitAuthError, OSError) as error:
                state.log_error(error, "signing in with an account")
                markup.show_problem_message(app.words.trouble.lead)
