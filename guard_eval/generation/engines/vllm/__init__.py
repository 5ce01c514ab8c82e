"""vLLM as an engine: `plugin.py` runs strategies in vLLM, and `generation.py` writes a study's texts.

Only these two modules import vLLM. If this package is installed, vLLM finds `plugin.py`.
"""

from typing import Any

VllmObject = Any
"""An object of vLLM. vLLM's classes are imported only when they are needed."""
