"""vLLM as an engine: our strategies as its logits processor, and a study's continuations by it.

Only `plugin.py`, which vLLM finds by itself once this package is installed, and `generation.py` import vLLM.
"""
