"""`guard-eval publish`: a study as a data set, ready for upload."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli import commands
from guard_eval.cli.console import StudyFolder, named_path, say, say_next, say_table
from guard_eval.study.folder import Study


class Included(StrEnum):
    """What is published only where it is named."""

    comments = "comments"
    rationales = "rationales"


def command(
    folder: StudyFolder,
    output: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make.", parser=named_path)],
    license: Annotated[  # noqa: A002 (the option's name)
        str | None,
        typer.Option(
            help="The verdicts' licence, by its SPDX identifier such as CC-BY-4.0; default: study.toml's."
        ),
    ] = None,
    include: Annotated[
        list[Included] | None,
        typer.Option(help="Also what raters commented, or the rationales that judges gave."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="A word that is found and harmless, such as a name in a story; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files, or what is refused, and write nothing.")
    ] = False,
) -> None:
    """Make a data set of the study, without its raters' identities.

    Verdicts with raters as numbers, pairs with their texts, study.toml, the report, a dataset card,
    croissant.json, CITATION.cff and checksums. It is refused where a name, an id, a key or a link would be
    published.
    """
    study = Study.open(folder)
    sizes = commands.publish(
        study,
        output,
        license=license,
        include=[each.value for each in include or ()],
        allow=allow or (),
        dry_run=dry_run,
    )
    if dry_run:
        say_table(["File", "Bytes"], [(name, str(size)) for name, size in sizes.items()])
        say(f"\nNothing was written, and nothing is refused: {len(sizes)} files, {sum(sizes.values())} bytes")
        return
    say(f"{output}: {len(sizes)} files, {sum(sizes.values())} bytes")
    say_next(f"read {output / 'README.md'}, then upload the folder")
