"""`guard-eval annotate`: serve the study to its raters."""

from __future__ import annotations

from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, say


def command(
    folder: StudyFolder,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8501,
    address: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
    invite: Annotated[
        str | None, typer.Option(metavar="NAME", help="Invite this rater first and print the link.")
    ] = None,
) -> None:
    """Serve the pairs to people, in a browser.

    Ctrl-C stops it, and nothing is lost: what the page calls saved is on disk.
    """
    from annotation_app.launch import serve
    from guard_eval.errors import StudyError
    from guard_eval.store import Store
    from guard_eval.study import Study

    study = Study.open(folder)
    with Store.open(study.database, study_hash=study.hash) as store:
        pairs = len(store.pairs())
        if not pairs:
            raise StudyError(f"{folder} has no pairs yet; run: guard-eval pair {folder}")
        token = store.invite(invite)[1] if invite else None
        people = sum(rater.kind == "person" for rater in store.raters())
    say(f"{pairs} pairs, {study.settings.annotation.raters_per_pair} people each, {people} invited")
    if not people:
        say(f"Nobody is invited yet; in another terminal: guard-eval raters {folder} add NAME")

    def ready(url: str) -> None:
        say(f"Serving on {url} (Ctrl-C stops)")
        if token:
            say(f"{invite}: {url.rstrip('/')}/?invite={token}")

    code = serve(folder, port=port, address=address, on_ready=ready)
    say(f"\nNext: guard-eval report {folder}")
    raise typer.Exit(code)
