"""Owns work on several machines: a Ray cluster, its actors, and what they do of a run or of sampling."""
