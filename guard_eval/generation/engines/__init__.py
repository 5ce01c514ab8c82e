"""Where decoding runs. Without PyTorch and transformers an import names the extra that brings them."""

import os
from importlib.util import find_spec
from typing import Any, TypeAlias

from guard_eval.errors import MissingExtraError

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise MissingExtraError("generate", _package)

# Threads that wait for each other would spin, and on shared cores keep each other from what they wait for: a
# step takes 9 to 16 times as long. PyTorch reads this when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

Model: TypeAlias = Any
"""A model of transformers, whose classes are untyped."""
Tokenizer: TypeAlias = Any
"""Its tokenizer."""
