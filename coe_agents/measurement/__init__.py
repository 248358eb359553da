"""Owns the measurement of a group: its uncertainty, its proposals, the scores of it, and their words.

Its public names are exported by `coe_agents.policy`.
"""
