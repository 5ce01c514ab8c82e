"""`guard-eval annotate`: serve the study to its raters."""

from __future__ import annotations

from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, say


def command(
    folder: StudyFolder,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8501,
    address: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
) -> None:
    """Open the study in a browser for the people who rate it; Ctrl-C stops it, and nothing is lost."""
    from annotation_app.launch import serve
    from guard_eval.store import Store
    from guard_eval.study import Study

    study = Study.open(folder)
    with Store.open(study.database, study_hash=study.hash) as store:
        people = [rater for rater in store.raters() if rater.kind == "person"]
        pairs = len(store.pairs())
    say(f"{pairs} pairs, {study.settings.annotation.raters_per_pair} people each, {len(people)} invited")
    if not people:
        say(f"Nobody is invited yet; in another terminal: guard-eval raters {folder} add NAME")
    say(f"Serving on http://{address}:{port} (Ctrl-C stops)")
    code = serve(folder, port=port, address=address)
    say(f"\nNext: guard-eval report {folder}")
    raise typer.Exit(code)
