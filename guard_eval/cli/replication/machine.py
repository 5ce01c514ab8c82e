"""What this machine has for a replication: PyTorch, a GPU and its memory, models that are downloaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guard_eval.cli.replication.needs import Needs
    from guard_eval.cli.replication.registry import Entry

_DEVICES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""What a machine with a GPU of NVIDIA, of AMD, or seen from Windows has; torch is asked only then."""
_GB = 1e9
_FEW = 10_000
"""Tokens that a 7B model makes on a CPU within hours."""
_FLOAT32, _SPARE_GB = 4, 2
"""Bytes of a parameter there, and what else is in memory."""


@dataclass(frozen=True)
class Machine:
    """This machine, looked at once."""

    @cached_property
    def torch(self) -> bool:
        """Say whether PyTorch and transformers are installed."""
        return find_spec("torch") is not None and find_spec("transformers") is not None

    @cached_property
    def gpu_gb(self) -> float:
        """Return the memory of the largest GPU that PyTorch can use, in GB; 0 without one."""
        if not self.torch or not any(Path(device).exists() for device in _DEVICES):
            return 0.0
        import torch

        if not torch.cuda.is_available():
            return 0.0
        return max(
            torch.cuda.get_device_properties(n).total_memory / _GB for n in range(torch.cuda.device_count())
        )

    @cached_property
    def ram_gb(self) -> float:
        """Return the memory of the machine, in GB; 0 where the system does not say."""
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GB
        except (AttributeError, ValueError, OSError):
            return 0.0

    def has(self, hub: str) -> bool:
        """Say whether a model's configuration and weights lie in the Hugging Face cache."""
        if find_spec("huggingface_hub") is None:
            return False
        from huggingface_hub import try_to_load_from_cache

        names = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
        return any(isinstance(try_to_load_from_cache(hub, name), str) for name in names)

    def verdict(self, entry: Entry, needs: Needs) -> str:
        """Say in a few words whether the entry can be run here with the paper's models, and why not."""
        from guard_eval.cli.replication.registry import MODELS

        if not entry.study:
            return "nothing to run"
        if not self.torch:
            return "no: pip install 'guard-eval[generate,metrics]'"
        if not self.gpu_gb:
            few = (
                needs.tokens <= _FEW
                and self.ram_gb >= _FLOAT32 * MODELS[entry.models[0]].billions + _SPARE_GB
            )
            return "yes, slowly: no GPU" if few else "no: needs a GPU"
        if self.gpu_gb < needs.memory_gb:
            return f"no: its GPU has {self.gpu_gb:.0f} GB"
        absent = [name for name in entry.models if not self.has(MODELS[name].hub)]
        if absent and os.environ.get("HF_HUB_OFFLINE") == "1":
            return f"no: offline, without {absent[0]}"
        after = " (+ people)" if entry.people else " (+ judge)" if entry.judged else ""
        return f"yes, downloads{after}" if absent else f"yes{after}"

    @property
    def words(self) -> str:
        """Return what was found, in words."""
        if not self.torch:
            return "PyTorch is not installed"
        gpu = f"a GPU of {self.gpu_gb:.0f} GB" if self.gpu_gb else "no GPU"
        return f"PyTorch, {gpu}"
