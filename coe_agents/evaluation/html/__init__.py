"""Owns the evaluation as one self-contained web page, and the parts that all pages share."""
