"""Texts on disk: prompts, continuations, anybody's generations, shards, and the pairs made of them."""
