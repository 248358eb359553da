"""Owns the command `coe-agents`: its sub-commands, its output and its exit codes."""

__all__ = ["main"]


def main() -> None:
    """Runs the command."""
    # here: the processes of `score` import what starts the command
    from coe_agents.cli.app import main

    main()
