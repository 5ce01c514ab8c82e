"""Let a model rate by the Batch API, at half the price: hours of patience, and nothing paid twice.

What is to be sent is in the store, its money set aside, before anything goes out; each name the provider
gives is stored before the next step. So a run may be killed anywhere: the next one takes over its batches,
and sends only what no batch and no journal has. Answers are journalled under the same keys as online ones.
"""

from judge.batch.collecting import Patience
from judge.batch.run import run_batches

__all__ = ["Patience", "run_batches"]
