"""vLLM as an engine: our strategies as its logits processor, and a study's continuations by it.

`request.py` reads what a request asks; `memory.py` chooses its tokens with the same steps as the other
engines; `plugin.py` speaks vLLM's two interfaces, and is what vLLM loads by itself once this
package is installed (entry point group `vllm.logits_processors`). Only `plugin.py` and `generation.py` import
vLLM.
"""
