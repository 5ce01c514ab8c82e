"""The engines that run models. If PyTorch or transformers is missing, the import names the extra."""

import os
from importlib.util import find_spec
from typing import Any

from guard_eval.errors import MissingExtraError

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise MissingExtraError("generate", _package)

# By default, waiting threads keep their cores busy. On shared cores, they delay the threads that they wait
# for, and a step takes 9 to 16 times as long. PyTorch reads this variable when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

Model = Any
"""A model of transformers, whose classes are untyped."""
Tokenizer = Any
"""A tokenizer of transformers."""
Output = Any
"""The result of a model's forward pass or of `generate`."""
