"""Owns scoring: the statistics of each saved question, the criterion of correctness, and the vectors of scores.

The estimators over the statistics stand in `coe_agents.measurement`, since policies need them, too.
"""
