"""Where decoding runs. Without PyTorch and transformers an import names the extra that brings them."""

from importlib.util import find_spec

from guard_eval.errors import MissingExtraError

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise MissingExtraError("generate", _package)
