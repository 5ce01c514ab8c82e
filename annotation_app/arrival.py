"""Who comes: by an invite, from Prolific, or with an account of an OIDC provider.

Whoever comes is signed in by a token, which then stands in the page's address, where a refreshed page finds
it again. Prolific's parameters and a provider's subject become a rater of their own at the first visit, and
the same one at every later visit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st
from streamlit.errors import StreamlitAuthError

from annotation_app import intake, markup, screens, session
from annotation_app.markup import label
from annotation_app.session import AppState, RaterSession
from guard_eval.records import content_id
from guard_eval.store.schema import LONGEST_NAME
from guard_eval.study.annotation_settings import Recruitment

_PARAMETERS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
_PARAMETER = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Somebody without an invite.

    Attributes:
        source: Where from: `prolific` or `oidc`.
        external_id: Who it is there.
        detail: What is noted of this visit besides.
    """

    source: str
    external_id: str
    detail: Mapping[str, str]


def enter(app: AppState) -> RaterSession | None:
    """Sign a visitor in, or show the page on which to do so."""
    token = st.query_params.get("invite", "")
    visit = session.sign_in(app, token) if token else None
    refused = session.words().sign_in.unknown if token else ""
    recruitment = app.settings.recruitment
    if visit is None:
        arrival = from_prolific(st.query_params, recruitment) or from_account(recruitment)
        if arrival is not None:
            visit = _enrol(app, arrival)
            refused = session.words().sign_in.unknown
    if visit is None:
        _ask(app, refused)
        return None
    st.session_state["visit"] = visit
    return visit


def from_prolific(parameters: Mapping[str, str], recruitment: Recruitment) -> Arrival | None:
    """Return who comes from Prolific, by the parameters that it puts into the address."""
    person, study, visit = (parameters.get(name, "") for name in _PARAMETERS)
    known = recruitment.prolific and _PARAMETER.fullmatch(person)
    if not known or _is_elsewhere(parameters, recruitment):
        return None
    detail = {
        name: value for name, value in (("study", study), ("session", visit)) if _PARAMETER.fullmatch(value)
    }
    return Arrival(source="prolific", external_id=person, detail=detail)


def _is_elsewhere(parameters: Mapping[str, str], recruitment: Recruitment) -> bool:
    """Return whether somebody comes from another of Prolific's studies than the one that is named."""
    asked = recruitment.prolific_study
    return asked is not None and "PROLIFIC_PID" in parameters and parameters.get("STUDY_ID") != asked


def from_account(recruitment: Recruitment) -> Arrival | None:
    """Return who signed in with an account; neither name nor address is kept."""
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


def _enrol(app: AppState, arrival: Arrival) -> RaterSession | None:
    """Return the visit of who comes; None for somebody who was revoked."""
    _, token = app.store.enrol(arrival.external_id, arrival.source)
    visit = session.sign_in(app, token)
    if visit is not None:
        came = {"source": arrival.source, **arrival.detail}
        intake.note_arrival(app.store, visit.rater, visit.intake, came)
        # In place of the parameters: a refreshed page need not enrol anybody.
        st.query_params.from_dict({"invite": token})
    return visit


def _ask(app: AppState, refused: str) -> None:
    """Show the ways in; a code that is given goes into the address, and the page is loaded again."""
    recruitment = app.settings.recruitment
    words = session.words()
    if recruitment.prolific and not refused and _is_elsewhere(st.query_params, recruitment):
        refused = words.sign_in.elsewhere
    with st.container(key="narrow"):
        code = screens.sign_in(
            words,
            refused=refused,
            uninvited=not recruitment.is_open and not _anybody(app),
            prolific=recruitment.prolific,
        )
        if recruitment.oidc and st.button(label(words.sign_in.account), key="account"):
            _sign_in_with_account()
    if code is not None:
        st.query_params["invite"] = code
        st.rerun()


def _sign_in_with_account() -> None:
    try:
        st.login()
    except (StreamlitAuthError, OSError) as error:
        session.log(error, "signing in with an account")
        st.html(markup.message(session.words().sign_in.account_trouble, kind="problem"))


def _anybody(app: AppState) -> bool:
    return any(rater.kind == "person" for rater in app.store.raters())
