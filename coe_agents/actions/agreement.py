"""Owns how often others give an argument the value that a proposer gives it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coe_agents.actions.canonical import read_action, to_line


@dataclass(frozen=True, slots=True)
class ArgumentAgreement:
    """One argument of a tool.

    Attributes:
        path: "tool.argument".
        n: How many values of others were compared with the proposer's.
        share: The share of these that are the same, in [0, 1].
    """

    path: str
    n: int
    share: float


def argument_agreement(groups: Iterable[Mapping[str, str]], proposer: str) -> list[ArgumentAgreement]:
    """Returns the agreement on each argument, least first, where another agent calls the same tools.

    Args:
        groups: For each question the canonical action of each agent, by name.
        proposer: The agent whose values are compared with those of the others.

    Example:
        >>> groups = [{"a": '[{"args":{"to":"Ann"},"name":"pay"}]', "b": '[{"args":{"to":"ann"},"name":"pay"}]'}]
        >>> argument_agreement(groups, "a")
        [ArgumentAgreement(path='pay.to', n=1, share=0.0)]
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
    ranked = [ArgumentAgreement(path, len(same), sum(same) / len(same)) for path, same in found.items()]
    return sorted(ranked, key=lambda one: (one.share, -one.n, one.path))
