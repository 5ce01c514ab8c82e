"""`guard-eval try`: one text, shown as it is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from guard_eval.cli.console import console, count_of, progress_console, say
from guard_eval.engines.library import Token, load_model, watch
from guard_eval.errors import StudyError
from guard_eval.records import Continuation
from guard_eval.reporting.escaping import clean
from guard_eval.reporting.tokens import SHADES, shade, tokens_page
from guard_eval.reporting.writing import write_whole

_ENDED = {"eos": "the model", "length": "the length limit", "stop": "a stop string"}


def command(
    model: Annotated[str, typer.Argument(help="A Hugging Face id, a folder, or 'bundled'.")],
    prompt: Annotated[str, typer.Argument(help="What to continue; '-' reads it from standard input.")],
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="Any strategy, such as 'top_p(p=0.9)' or 'dry + min_p'.")
    ] = "guard",
    amateur: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The second model of contrastive decoding.")
    ] = None,
    colour: Annotated[
        str,
        typer.Option(
            metavar="NUMBER",
            help="What colours the tokens: entropy, probability, or what the strategy adapts, such as k, "
            "alpha, q and H_glob of GUARD.",
        ),
    ] = "entropy",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with every number of every token.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="The length limit.")] = 128,
    max_prompt_tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the prompt's last tokens are kept.")
    ] = 256,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="End with the token that completes it; may be given several times."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="What is drawn depends on it.")] = 0,
    chat: Annotated[
        bool, typer.Option("--chat", help="Give the prompt through the model's chat template.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
) -> None:
    """Show one text as it is made, its tokens coloured by how unsure the model is.

    On a terminal a token's background is the stronger, the greater its number among those so far; elsewhere
    the text has no colours. A strategy with beams shows its text in the end, without colours.
    """
    if prompt == "-":
        prompt = sys.stdin.read() if sys.stdin else ""
    shown = _Shown(colour)
    with progress_console().status("loading the model"):
        loaded = load_model(model, device=device, dtype=dtype)
    made = watch(
        prompt,
        shown,
        strategy,
        loaded,
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        stop=stop or (),
        chat=chat,
        **({} if amateur is None else {"amateur": amateur}),
    )
    shown.finish(made)
    if html is not None:
        write_whole(html, _page(prompt, shown, made).encode(), make_folder=True)
        say(f"every number of every token: {html}")


class _Shown:
    """Prints tokens as they come, and remembers them."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.tokens: list[Token] = []
        self.numbers: dict[str, list[float]] = {}

    def __call__(self, token: Token) -> None:
        numbers = {"entropy": token.entropy, "probability": token.probability, **token.values}
        if self.colour not in numbers:
            raise StudyError(
                f"--colour {self.colour}: this strategy has no such number; choose from: {', '.join(numbers)}"
            )
        self.tokens.append(token)
        for name, value in numbers.items():
            self.numbers.setdefault(name, []).append(value)
        seen = self.numbers[self.colour]
        level = shade(seen[-1], min(seen), max(seen))
        pale = 255 - round(level * 160 / (SHADES - 1))
        style = f"black on rgb(255,{pale},{max(0, 2 * pale - 255)})" if level else ""
        console().print(Text(clean(token.text), style), end="")

    def finish(self, made: Continuation) -> None:
        """End the text, and say what its colours mean."""
        if not self.tokens:
            console().print(Text(clean(made.text)), end="")
        tokens = count_of(made.new_tokens, "token")
        say(f"\n\n{made.recipe.strategy}: {tokens} in {made.seconds:.1f} s; {_ENDED[made.finish]} ended it")
        if self.tokens and console().color_system and not console().no_color:
            seen = self.numbers[self.colour]
            unit = " nats" if self.colour == "entropy" else ""
            say(f"colour: {self.colour}, from {min(seen):.3g} (none) to {max(seen):.3g}{unit} (strongest)")


def _page(prompt: str, shown: _Shown, made: Continuation) -> str:
    facts = {
        "Strategy": made.recipe.strategy,
        "Model": f"{made.recipe.model} ({made.recipe.revision}), {made.recipe.dtype} on {made.device}",
        "Seed": str(made.recipe.seed),
        "Tokens": f"{made.new_tokens}, ended by {_ENDED[made.finish]}",
        "Versions": made.versions,
    }
    texts = [token.text for token in shown.tokens] or [made.text]
    return tokens_page(texts, shown.numbers, colour=shown.colour, prompt=prompt, facts=facts)
