"""Owns how a model is asked: its servers, limits, retries and deadlines, what it takes, and how a reply is read."""
