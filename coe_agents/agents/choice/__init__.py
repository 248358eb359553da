"""Owns the probability of each of a few short choices: which route gives it, and how a reply is read."""
