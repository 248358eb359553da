"""Owns one or two runs as one self-contained web page."""

from coe_agents.experiments.html.run_page import create_run_page

__all__ = ["create_run_page"]
