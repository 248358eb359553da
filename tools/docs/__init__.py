"""Owns what a command writes into the Markdown of the documentation."""
