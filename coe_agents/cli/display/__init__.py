"""Owns how results look on a terminal, a file for each kind."""
