"""Owns the evaluation as one web page, which needs nothing but itself."""

from coe_agents.evaluation.html.create import create_page

__all__ = ["create_page"]
