"""The page on which a pair is compared.

Everything a rater chooses stays in the browser until a button is pressed (`st.form`): choosing costs no round
trip.

The answers are `st.segmented_control(required=True)`: in the page it is a radio group with its name and three
radio buttons, worked by mouse, finger or arrow keys; nothing is chosen at first and nothing can be un-chosen
by a second click. Its three wide buttons lie as the texts do, A on the left. `st.radio` offers small targets
and looks like a list; `st.pills` is the same widget with its buttons apart.
"""

from __future__ import annotations

from typing import cast

import streamlit as st

from annotation_app import markup, session, texts
from annotation_app.session import Desk, Sitting
from guard_eval.records import CHOICES, BlindPair, Choice
from guard_eval.rubric import Criterion


def show(desk: Desk, sitting: Sitting, pair: BlindPair) -> None:
    """Show `pair` with its questions."""
    editing = pair.presentation in sitting.saved
    note = sitting.note or (texts.EDITING if editing else "")
    chosen = session.prefill(desk, sitting)
    # The texts stand inside the form so that its row of buttons can stay in sight beside them.
    with st.form(f"pair-{pair.presentation}", border=False, enter_to_submit=False):
        st.html(markup.header(number=sitting.number, total=sitting.rated + sitting.available, note=note))
        st.html(markup.pair(pair))
        for criterion in desk.criteria:
            words, answer = st.columns(2, vertical_alignment="center")
            words.html(markup.question(criterion))
            answer.segmented_control(
                criterion.title,
                CHOICES,
                format_func=_label,
                key=_key(pair, criterion.name),
                default=chosen.get(criterion.name),
                required=True,
                label_visibility="collapsed",
                width="stretch",
            )
        with st.container(key="actions", horizontal=True, vertical_alignment="center"):
            _actions(desk.criteria, sitting, pair)


def _actions(criteria: tuple[Criterion, ...], sitting: Sitting, pair: BlindPair) -> None:
    st.form_submit_button(
        texts.BACK_BUTTON,
        key="back",
        disabled=sitting.at == 0,
        on_click=_back,
        args=(criteria, pair),
    )
    st.form_submit_button(
        texts.INSTRUCTIONS_BUTTON,
        key="instructions",
        type="tertiary",
        on_click=_read,
        args=(criteria, pair),
    )
    said = sitting.problem or (texts.missing(sitting.missing) if sitting.missing else "")
    if said:
        with st.container(key="said"):
            st.html(markup.message(said, kind="problem"))
    pressed = st.form_submit_button(
        texts.SAVE_BUTTON,
        key="save",
        type="primary",
        shortcut="Ctrl+Enter",
        on_click=_submit,
        args=(criteria, pair),
    )
    # After a restart of the server the first press reaches a session that knows no callbacks yet.
    if pressed and not st.session_state.pop("heard", False):
        _submit(criteria, pair)
        st.rerun()


def _label(choice: str) -> str:
    return texts.CHOICE_LABELS[cast("Choice", choice)]


def _key(pair: BlindPair, criterion: str) -> str:
    return f"choice-{pair.presentation}-{criterion}"


def _chosen(criteria: tuple[Criterion, ...], pair: BlindPair) -> dict[str, Choice]:
    values = {c.name: st.session_state.get(_key(pair, c.name)) for c in criteria}
    return {name: cast("Choice", value) for name, value in values.items() if value in CHOICES}


def _before(pair: BlindPair) -> Sitting | None:
    """Return the sitting if `pair` is what it shows: of two clicks on a button only the first finds it so."""
    sitting: Sitting | None = st.session_state.get("sitting")
    if sitting is None or sitting.pair is None or sitting.pair.presentation != pair.presentation:
        return None
    return sitting


def _submit(criteria: tuple[Criterion, ...], pair: BlindPair) -> None:
    st.session_state["heard"] = True
    sitting = _before(pair)
    if sitting is None:
        return
    choices = _chosen(criteria, pair)
    # Kept before anything can fail: whatever page comes next, these stand on the form when it is shown again.
    sitting.drafts[pair.presentation] = choices
    sitting.note, sitting.problem = "", ""
    sitting.missing = [criterion.title for criterion in criteria if criterion.name not in choices]
    if sitting.missing:
        return
    try:
        desk = session.open_desk()
        if session.may_continue(desk, sitting):
            session.save(desk, sitting, choices)
            sitting.note = texts.SAVED
        else:
            del st.session_state["sitting"]
    except session.TROUBLES as error:
        session.log(error, "saving a verdict")
        sitting.problem = texts.NOT_SAVED


def _back(criteria: tuple[Criterion, ...], pair: BlindPair) -> None:
    """Turn to the pair before, and keep what is chosen so far."""
    if sitting := _before(pair):
        sitting.drafts[pair.presentation] = _chosen(criteria, pair)
        sitting.look(max(0, sitting.at - 1))


def _read(criteria: tuple[Criterion, ...], pair: BlindPair) -> None:
    """Turn to the instructions, and keep what is chosen so far."""
    if sitting := _before(pair):
        sitting.drafts[pair.presentation] = _chosen(criteria, pair)
        sitting.started = False
