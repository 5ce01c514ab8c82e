"""Texts on disk: prompts, systems and their texts, shards, and pairs."""
