"""Owns the tables and figures of the paper: Algorithm 1 over a group, rankings of models, and `reproduce`."""
