"""Owns the evaluation as one self-contained web page."""

from coe_agents.evaluation.html.create import create_page

__all__ = ["create_page"]
