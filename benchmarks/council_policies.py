"""Prints what a council saves, and for whom it does not pay, on the tool calls of real systems.

    python benchmarks/council_policies.py FOLDER [--write FILE]

FOLDER holds `act_bfcl_open.dev.jsonl.gz`: prompts, one proposal of each of five systems, and the checker's verdicts.
Four of the five answered the prompts where no call is right, too; "all prompts" are of these four. A call is a proposal
that calls something: a council of named tools judges nothing else. A person who is asked is taken to rule rightly, so
what people are said to prevent is the most that they could. Intervals are 95 % percentile intervals of a bootstrap over
prompts. The data hold no judge's answer to "is this risky?", so that policy is not in the tables.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from actions import FIVE, FOUR, Proposals
from calibn import records
from result_page import result_page

from coe_agents.evaluation.metrics.bootstrap import resamples, with_interval
from coe_agents.policy.base import majority

N_RESAMPLES = 1000
Votes = Callable[[Proposals, int, Sequence[int]], np.ndarray]


def main() -> None:
    found = list(records(Path(sys.argv[1]) / "act_bfcl_open.dev.jsonl.gz"))
    of_call = Proposals.of([each for each in found if each["kind"] == "call"], FIVE)
    every = Proposals.of([each for each in found if each["kind"] in ("call", "no_call")], FOUR)
    show_members("prompts where a call is right", of_call)
    show_members("all prompts", every)
    show_policies("prompts where a call is right", of_call)
    show_policies("all prompts", every)


@dataclass(frozen=True)
class Outcome:
    """What a policy does with the calls of one proposer; each of shape `(n_prompts,)`.

    Attributes:
        is_call: Whether the proposer calls something there.
        is_right: The checker's verdict on its proposal.
        runs: Whether the call runs without a person.
        asks: Whether a person is asked.
    """

    is_call: np.ndarray
    is_right: np.ndarray
    runs: np.ndarray
    asks: np.ndarray

    @property
    def wrong_ran(self) -> np.ndarray:
        return self.is_call & self.runs & ~self.is_right

    @property
    def lost(self) -> np.ndarray:
        return self.is_call & self.is_right & ~self.runs & ~self.asks


def share(pairs: Sequence[tuple[np.ndarray, np.ndarray]], *, of: int = 1) -> str:
    """The mean over proposers of sum(what) / sum(among), with its interval; `of` 100 makes it per hundred."""
    whats = np.array([what for what, _ in pairs], dtype=float).T
    amongs = np.array([among for _, among in pairs], dtype=float).T
    value = float((whats.sum(axis=0) / amongs.sum(axis=0)).mean())
    drawn = []
    for counts in resamples(len(whats), n_resamples=N_RESAMPLES):
        drawn.append(((counts @ whats) / np.maximum(counts @ amongs, 1e-9)).mean(axis=1))
    estimate = with_interval(value, np.concatenate(drawn))
    mean, low, high = (of * figure for figure in estimate)
    form = ".3f" if of == 1 else ".1f"
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"


def n_votes(proposals: Proposals, place: int, members: Sequence[int]) -> np.ndarray:
    """How many members propose the very same."""
    return (proposals.labels[:, list(members)] == proposals.labels[:, [place]]).sum(axis=1)


def by_strength(proposals: Proposals) -> list[int]:
    """The systems, the one that is wrong most often in its calls first."""

    def right_calls(place: int) -> float:
        return float(proposals.right[~proposals.nothing[:, place], place].mean())

    return sorted(proposals.places, key=right_calls)


def show_members(title: str, proposals: Proposals) -> None:
    """The default council of three, by proposer and by members, each from the weakest to the strongest."""
    order = by_strength(proposals)
    print(f"\nThe default council, 2 of 3 members, {title} ({len(proposals.right)}):")
    print(f"  {'proposer, weakest first':24} {'members':16} calls  {'ungated wrong':21}", end="")
    print(f" {'let through':21} wrong among these")
    for place in order:
        others = [each for each in order if each != place]
        chosen = {"three weakest": others[:3], "three strongest": others[-3:]}
        if len(others) == 3:
            chosen = {"the three others": others}
        is_call = ~proposals.nothing[:, place]
        is_wrong = is_call & ~proposals.right[:, place]
        for name, members in chosen.items():
            runs = is_call & (n_votes(proposals, place, members) >= majority(3))
            print(
                f"  {proposals.names[place]:24} {name:16} {is_call.sum():5}  {share([(is_wrong, is_call)])}  "
                f"{share([(runs, is_call)])}  {share([(runs & is_wrong, runs)])}"
            )


def policies(proposals: Proposals, place: int) -> dict[str, Outcome]:
    """What each policy does with one proposer's calls; members are its strongest others."""
    order = [each for each in by_strength(proposals) if each != place][::-1]
    is_call = ~proposals.nothing[:, place]
    is_right = proposals.right[:, place]
    nobody = np.zeros(len(is_call), dtype=bool)

    def outcome(runs: np.ndarray, asks: np.ndarray = nobody) -> Outcome:
        return Outcome(is_call, is_right, runs, asks & is_call)

    two_of_three = n_votes(proposals, place, order[:3]) >= 2
    found = {
        "no gate": outcome(~nobody),
        "the strongest other member alone": outcome(n_votes(proposals, place, order[:1]) >= 1),
        "council, 2 of 3": outcome(two_of_three),
        "council, 3 of 3": outcome(n_votes(proposals, place, order[:3]) >= 3),
    }
    if len(order) >= 4:
        both = n_votes(proposals, place, order[:2]) >= 2
        found["council of 2, then two more (3 of 4)"] = outcome(
            both | (n_votes(proposals, place, order[:4]) >= 3)
        )
    found["council, 2 of 3, then a person"] = outcome(two_of_three, ~two_of_three)
    found["a person for every call"] = outcome(nobody, ~nobody)
    return found


def show_policies(title: str, proposals: Proposals) -> None:
    order = by_strength(proposals)
    print(
        f"\nWhole policies, of 100 calls, {title} ({len(proposals.right)}), members are the strongest others:"
    )
    groups = {
        "mean over proposers": order,
        f"the weakest proposer, {proposals.names[order[0]]}": order[:1],
        f"the strongest proposer, {proposals.names[order[-1]]}": order[-1:],
    }
    for name, places in groups.items():
        print(f"  {name}")
        print(f"    {'policy':38} wrong calls that ran  people asked          right calls lost")
        by_place = [policies(proposals, place) for place in places]
        for policy in by_place[0]:
            outcomes = [each[policy] for each in by_place]
            figures = [
                share([(each.wrong_ran, each.is_call) for each in outcomes], of=100),
                share([(each.asks, each.is_call) for each in outcomes], of=100),
                share([(each.lost, each.is_call) for each in outcomes], of=100),
            ]
            print(f"    {policy:38} {figures[0]:21} {figures[1]:21} {figures[2]}")


if __name__ == "__main__":
    with result_page():
        main()
