"""Owns `python -m coe_agents`: the command, where its script is not on the path."""

from coe_agents.cli import main

if __name__ == "__main__":
    main()
