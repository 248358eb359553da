"""Owns samples on disk: saved responses are read by question, and a run's samples are kept as they arrive."""
