"""Owns the diagnosis of a group: what answers, what does not, and what to do."""
