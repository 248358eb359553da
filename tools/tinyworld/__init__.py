"""Owns the making of tinyworld's models: corpora, tokenizers and training; `python -m tools.tinyworld` runs it."""
