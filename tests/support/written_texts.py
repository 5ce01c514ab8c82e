"""Write texts for prompts with the transformers engine, and tokens with the engine's decoding loop."""

from contextlib import contextmanager

import torch

from guard_eval import progress
from guard_eval.generation.engines.batch import Batch, find_padding_token
from guard_eval.generation.engines.decode import Writer, decode_batch
from guard_eval.generation.strategies import parse
from guard_eval.records import Prompt
from guard_eval.study.system_settings import GenerationSettings


def make_prompts(count):
    """Return prompts of which each is longer than the one before."""
    return [Prompt(id=f"p{n}", dataset="set", text="the cat sat" + " on the mat" * n) for n in range(count)]


def write_planned(
    loaded,
    texts,
    strategy,
    *,
    batch_size=8,
    seed=0,
    amateur=None,
    trace=False,
    on_step=None,
    **settings,
):
    """Write texts with settings of `[generation]`, and yield the finished batches."""
    writer = Writer(
        loaded=loaded,
        strategy=parse(strategy),
        settings=GenerationSettings(batch_size=batch_size, **settings),
        seed=seed,
        amateur=amateur,
        trace=trace,
        on_step=on_step,
    )
    yield from writer.generate_batches(texts)


def write(loaded, prompts, strategy, **settings):
    """Yield the first text of each prompt in batches."""
    for batch in write_planned(loaded, [(prompt, 1) for prompt in prompts], strategy, **settings):
        yield batch.texts


def continue_rows(
    model,
    prompts,
    strategy,
    *,
    ends=(0,),
    limit=20,
    keys=None,
    **options,
):
    """Continue prompts of token ids. The default key of a prompt is its number."""
    keys = torch.arange(len(prompts), device=model.device) if keys is None else keys
    batch = Batch(prompts=prompts, keys=keys, ends=ends, limit=limit, padding=find_padding_token(model))
    return decode_batch(model, batch, parse(strategy), **options)


@contextmanager
def collect_notices():
    """Collect the notices to the user within the block."""
    reporter = progress.Reporter()
    notices = []
    reporter.show_notice = notices.append
    with progress.use_reporter(reporter):
        yield notices
