"""vLLM as an engine: the strategies as its logits processor, and a study's continuations by it.

Only `plugin.py` and `generation.py` import vLLM. When this package is installed, vLLM finds `plugin.py`.
"""

from typing import Any, TypeAlias

VllmObject: TypeAlias = Any
"""An object of vLLM, whose classes are imported only when they are needed."""
