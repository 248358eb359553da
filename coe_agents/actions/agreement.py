"""Owns how often others give an argument the value that a proposer gives it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from coe_agents.actions.canonical import read_action, to_line


def argument_agreement(groups: Iterable[Mapping[str, str]], proposer: str) -> dict[str, tuple[float, int]]:
    """Returns the share of others' values that are the proposer's, and their number, by "tool.argument", least first.

    Only agents that call the same tools are compared.

    Args:
        groups: For each question the canonical action of each agent, by name.
        proposer: The agent whose values are compared with those of the others.

    Example:
        >>> groups = [{"a": '[{"args":{"to":"Ann"},"name":"pay"}]', "b": '[{"args":{"to":"ann"},"name":"pay"}]'}]
        >>> argument_agreement(groups, "a")
        {'pay.to': (0.0, 1)}
    """
    found: dict[str, list[bool]] = defaultdict(list)
    for group in groups:
        actions = {name: read_action(text) or [] for name, text in group.items()}
        own = actions.pop(proposer, [])
        for other in actions.values():
            if [call["name"] for call in own] != [call["name"] for call in other]:
                continue
            for call, peer in zip(own, other, strict=True):
                a, b = ({name: to_line(value) for name, value in one["args"].items()} for one in (call, peer))
                for name in a.keys() | b.keys():
                    found[f"{call['name']}.{name}"].append(a.get(name) == b.get(name))
    shares = {path: (sum(same) / len(same), len(same)) for path, same in sorted(found.items())}
    return dict(sorted(shares.items(), key=lambda one: one[1][0]))
