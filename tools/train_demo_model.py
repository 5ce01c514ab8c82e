"""Train the language model bundled with `guard-eval demo`.

    python tools/train_demo_model.py CORPUS_DIR OUTPUT_DIR

CORPUS_DIR has one UTF-8 `.txt` file per public-domain book. All random choices are seeded: the same corpus,
options, thread count and library versions give the same model. The script writes the weights, and
`training.json` with the figures of the model card. Attention is half of the cost on a CPU, so most steps use
short windows, and only the last steps use the whole context.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HELD_OUT = ("Ozma-of-Oz", "The-Jungle-Book")
END = "<|endoftext|>"
END_ID = 0
NOTHING = -100
VOCABULARY = 4096
CONTEXT = 512
PASSAGE_CHARACTERS = 1500


def main() -> None:
    """Train the model, measure it, and save it."""
    options = parse_options()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    train_texts, held_out_texts = read_corpus(options.corpus)
    tokenizer = train_tokenizer(train_texts)
    train_tokens = encode(tokenizer, train_texts)
    characters = sum(len(text) for text in held_out_texts)
    held_out = encode(tokenizer, held_out_texts)
    if options.start_from:
        model = LlamaForCausalLM.from_pretrained(options.start_from, dtype=torch.float32)
    else:
        model = LlamaForCausalLM(architecture())
    add_dropout(model, options.dropout)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{size:,} parameters, {len(train_tokens):,} training tokens, {len(held_out):,} held out", flush=True
    )
    log = train(model, train_tokens, held_out, characters, options)
    model.half().save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)
    half = LlamaForCausalLM.from_pretrained(options.output, dtype=torch.float32)
    summary = {
        "parameters": size,
        "train_books": len(train_texts),
        "train_characters": sum(len(text) for text in train_texts),
        "train_tokens": len(train_tokens),
        "held_out_books": list(HELD_OUT),
        "held_out_characters": characters,
        "held_out_tokens": len(held_out),
        "held_out_bits_per_character": bits_per_character(half, held_out, characters),
        "held_out_by_book": {
            name: bits_per_character(half, encode(tokenizer, [text]), len(text))
            for name, text in zip(HELD_OUT, held_out_texts, strict=True)
        },
        "options": {
            name: value
            for name, value in vars(options).items()
            if name not in ("corpus", "output", "start_from")
        },
        "torch": torch.__version__,
        "log": log,
        "before": json.loads((options.start_from / "training.json").read_text())
        if options.start_from
        else None,
    }
    (options.output / "training.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(f"held out: {summary['held_out_bits_per_character']:.4f} bits per character", flush=True)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--start-from", type=Path, help="a model of an earlier run, with the same corpus")
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="tokens per step")
    parser.add_argument(
        "--long-from", type=float, default=0.8, help="share of steps after which windows fill the context"
    )
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument(
        "--dropout", type=float, default=0.1, help="on what each layer adds; against learning by heart"
    )
    parser.add_argument(
        "--dropout-from", type=float, default=0.0, help="share of steps after which there is dropout"
    )
    parser.add_argument("--learn-ends", action="store_true", help="learn where passages end, too")
    parser.add_argument("--seed", type=int, default=20260)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--evaluate-every", type=int, default=600)
    return parser.parse_args()


def read_corpus(folder: Path) -> tuple[list[str], list[str]]:
    """Return (training books, held-out books), each in the order of file names."""
    train_texts, held_out = [], []
    for path in sorted(folder.glob("*.txt")):
        chosen = held_out if path.name.startswith(HELD_OUT) else train_texts
        chosen.append(path.read_text(encoding="utf-8"))
    return train_texts, held_out


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer. One special token begins and ends every text, and also pads."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def passages(text: str) -> list[str]:
    """Divide a book into passages of whole paragraphs, each of about `PASSAGE_CHARACTERS` characters."""
    runs: list[list[str]] = [[]]
    length = 0
    for paragraph in text.split("\n\n"):
        if length > PASSAGE_CHARACTERS:
            runs.append([])
            length = 0
        runs[-1].append(paragraph)
        length += len(paragraph)
    return ["\n\n".join(run) for run in runs]


def encode(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    """Return all texts as one sequence of token ids [n]. The special token starts each passage."""
    rows = tokenizer([passage for text in texts for passage in passages(text)], verbose=False)["input_ids"]
    return torch.tensor([token for row in rows for token in row])


def architecture() -> LlamaConfig:
    """Return the configuration of a model with 3.8 million parameters."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=5,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )


def add_dropout(model: LlamaForCausalLM, rate: float) -> None:
    """Add dropout to the outputs of attention and feed-forward layers, because Llama has no such option."""

    def drop(module: torch.nn.Module, _inputs: object, output: Any) -> Any:  # noqa: ANN401 (tensor or tuple)
        first, *others = output if isinstance(output, tuple) else (output,)
        dropped = functional.dropout(first, rate, training=module.training)
        return (dropped, *others) if isinstance(output, tuple) else dropped

    for layer in model.model.layers:
        layer.self_attn.register_forward_hook(drop)
        layer.mlp.register_forward_hook(drop)


def train(
    model: LlamaForCausalLM,
    tokens: torch.Tensor,
    held_out: torch.Tensor,
    characters: int,
    options: argparse.Namespace,
) -> list[dict[str, float]]:
    """Train with bfloat16 autocast. Keep the best weights on held-out text in `model`. Return the log."""
    optimizers = make_optimizers(model, options)
    # A model that has not learnt to end never ends a text. If it has learnt to end, strategies that penalise
    # repeated tokens end its texts early, because the end token is never a repeated token.
    ignored = NOTHING if options.learn_ends else END_ID
    loss_of = torch.compile(lambda batch: next_token_loss(model, batch, ignored))
    log: list[dict[str, float]] = []
    best, best_weights = math.inf, {}
    began, losses = time.monotonic(), []
    for step, batch in enumerate(batches(tokens, options), start=1):
        model.train(step > options.dropout_from * options.steps)
        factor = schedule(step, options.steps)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * factor
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if step % options.evaluate_every == 0 or step == options.steps:
            figure = bits_per_character(model, held_out, characters)
            entry = {
                "step": step,
                "tokens": step * options.batch_tokens,
                "train_loss": round(sum(losses) / len(losses), 4),
                "held_out_bits_per_character": round(figure, 4),
                "minutes": round((time.monotonic() - began) / 60, 1),
            }
            log.append(entry)
            losses = []
            print(json.dumps(entry), flush=True)
            if figure < best:
                best, best_weights = figure, {k: v.clone() for k, v in model.state_dict().items()}
        elif step % 50 == 0:
            print(
                f"step {step}: {sum(losses[-50:]) / 50:.3f}, {(time.monotonic() - began) / 60:.1f} minutes",
                flush=True,
            )
    model.load_state_dict(best_weights)
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=0, pad_token_id=0)
    return log


def make_optimizers(model: LlamaForCausalLM, options: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """Return Muon for the hidden matrices and AdamW for the embedding and the norms."""
    hidden = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    other = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    rate, decay = options.learning_rate, options.weight_decay
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(hidden, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(other, lr=0.6 * rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
    return optimizers


def batches(tokens: torch.Tensor, options: argparse.Namespace) -> Iterator[torch.Tensor]:
    """Yield `steps` batches [rows, window + 1]. Each pass has another start offset and another order."""
    generator = torch.Generator().manual_seed(options.seed)
    order: list[int] = []
    window = 0
    for step in range(options.steps):
        length = CONTEXT if step >= options.long_from * options.steps else CONTEXT // 2
        rows = options.batch_tokens // length
        if length != window or len(order) < rows:
            window = length
            offset = int(torch.randint(window, (1,), generator=generator))
            starts = torch.arange(offset, len(tokens) - window - 1, window)
            order = starts[torch.randperm(len(starts), generator=generator)].tolist()
        chosen, order = order[:rows], order[rows:]
        yield torch.stack([tokens[start : start + window + 1] for start in chosen])


def next_token_loss(model: LlamaForCausalLM, batch: torch.Tensor, ignored: int) -> torch.Tensor:
    """Return the mean cross-entropy in nats over all targets except `ignored`."""
    logits = model(batch[:, :-1], use_cache=False).logits
    return functional.cross_entropy(
        logits.float().flatten(0, 1), batch[:, 1:].flatten(), ignore_index=ignored
    )


def schedule(step: int, steps: int) -> float:
    """Return the factor of the learning rate: a short warm-up, then a linear decrease to zero."""
    warm_up = 100
    return step / warm_up if step < warm_up else (steps - step) / max(1, steps - warm_up)


@torch.inference_mode()
def bits_per_character(model: LlamaForCausalLM, tokens: torch.Tensor, characters: int) -> float:
    """Return the held-out code length in bits per character. The ends of passages are given, not predicted.

    The second half of each window of `CONTEXT` tokens counts, and the whole first window. Every token after
    the first half-window therefore has at least half a context before it.
    """
    half = CONTEXT // 2
    padded = torch.cat([tokens, torch.zeros(CONTEXT, dtype=torch.long)])
    nats = 0.0
    starts = list(range(0, len(tokens) - half, half))
    model.eval()
    for first in range(0, len(starts), 16):
        group = starts[first : first + 16]
        batch = torch.stack([padded[s : s + CONTEXT + 1] for s in group])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(batch[:, :-1]).logits.float()
        losses = functional.cross_entropy(
            logits.transpose(1, 2), batch[:, 1:], reduction="none", ignore_index=END_ID
        )
        for row, start in enumerate(group):
            begin = 0 if start == 0 else half
            end = min(CONTEXT, len(tokens) - 1 - start)
            nats += losses[row, begin:end].sum().item()
    return nats / math.log(2) / characters


if __name__ == "__main__":
    main()
