"""Owns web pages that need no network: one of saved responses, one of a run."""
