"""Owns the questions that show what a group does: one for each regime, and one from outside of tinyworld's world."""

EXAMPLES: tuple[tuple[str, str], ...] = (
    ("What is the capital of France?", "all three know it"),
    ("What is the capital of Australia?", "they were taught different answers"),
    ("What is the capital of Bolivia?", "each was taught two answers"),
    ("What is the capital of Vanuatu?", "most were not taught it"),
    ("Who won the first season of the great northern baking show?", "nothing like it is in their world"),
)
"""Each question with what to expect."""
