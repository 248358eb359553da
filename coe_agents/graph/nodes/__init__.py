"""Owns what each node of the graph does, a file for each."""
