"""Owns the evaluation: questions with known answers, and what agents say to them."""
