"""Read the TOML files beside the modules of the package."""

import tomllib
from pathlib import Path
from typing import Any


def read_bundled_toml(module: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file. `module` is the `__file__` of the module beside it."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))
