"""Owns scoring: statistics of each question, estimators over them, the criterion of correctness, and score vectors."""
