"""Owns what a judge of meaning could not judge, for whoever compares answers by it: to the clusterer it is neutral."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from coe_agents.errors import ClusteringError
from coe_agents.text import quantity

_Pair = tuple[str, str]


@dataclass(slots=True)
class Unjudged:
    """The pairs that were judged in a block, and those without a verdict.

    Attributes:
        judge: The judge that gave none on some.
        failure: What the judge did on the first of them that it was asked about; "" if it was asked about none.
        judged: The pairs with a verdict.
        unjudged: Those without.
    """

    judge: str = ""
    failure: str = ""
    judged: set[_Pair] = field(default_factory=set)
    unjudged: set[_Pair] = field(default_factory=set)

    def note(self, judge: str, unjudged: Collection[_Pair], *, failure: str = "") -> None:
        """Notes pairs without a verdict; the first failure stays."""
        self.judge = self.judge or judge
        self.failure = self.failure or failure
        self.unjudged |= {*unjudged}

    def check(self) -> None:
        """Raises ClusteringError if the judge failed, and gave a verdict on no pair: all answers would look different.

        Texts that it was not asked about, since what is shown of them is equal, are no failure.
        """
        if self.failure and not self.judged:
            n_pairs = len(self.unjudged)
            raise ClusteringError(
                no_verdict(self.judge, n_pairs, self.failure),
                hint="Take another model as judge; if its reply was cut off, raise its `max_tokens`",
            )

    def in_words(self, *, of: str = "answers") -> str:
        """Returns how many pairs could not be judged, in either direction; "" if all could."""
        if not self.unjudged:
            return ""
        unjudged = {frozenset(pair) for pair in self.unjudged}
        asked = unjudged | {frozenset(pair) for pair in self.judged}
        of_all = quantity(len(asked), f"pair of {of}", f"pairs of {of}")
        count = "counts" if len(unjudged) == 1 else "count"
        return (
            f"{len(unjudged)} of {of_all} could not be judged by {self.judge}, "
            f"and {count} as different"
        )


def no_verdict(judge: str, n_pairs: int, failure: str) -> str:
    """Returns what is wrong with a judge that gave no verdict on any of so many pairs."""
    if n_pairs == 1:
        return f"the judge {judge} gave no verdict on the only pair: {failure}"
    return f"the judge {judge} gave no verdict on any of {n_pairs} pairs; on the first: {failure}"


_NOTED: ContextVar[Unjudged | None] = ContextVar("unjudged", default=None)


@contextmanager
def note_unjudged() -> Iterator[Unjudged]:
    """Yields what judges note of their pairs in a block; a block inside another one is a part of that."""
    outer = _NOTED.get()
    if outer is not None:
        yield outer
        return
    noted = Unjudged()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)
