"""Owns requests to models: servers, limits, retries, deadlines, capabilities, and the parsing of replies."""
