"""Owns questions with known answers: reading them, and choosing some by a seed."""
