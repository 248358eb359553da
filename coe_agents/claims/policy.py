"""Owns `ClaimPolicy`: which claims are given, by the support of the other models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from coe_agents.checks import integer, share
from coe_agents.decision.data import ClaimAction
from coe_agents.files import write
from coe_agents.policy.saved import load_saved
from coe_agents.text import quantity
from coe_agents.uncertainty.ties import TIE

_FORMAT = "coe-agents claim policy 1"
_REMEDY = "Calibrate again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCalibration:
    """What a `ClaimPolicy` was chosen on.

    Attributes:
        risk: The stated share of wrong claims among the kept: see `coe_agents.claims.calibrate.calibrate_claims`.
        confidence: With which it is kept.
        bound: The upper confidence bound of that share.
        n_claims: How many labelled claims there were.
        n_questions: Of how many questions; those of one entity are one.
        n_kept: How many of the claims the policy keeps.
        n_wrong: How many of these are wrong.
        n_answers: How many answers there were.
        n_given: Of how many of these it keeps a claim.
        support: The class of the support.
    """

    risk: float
    confidence: float
    bound: float
    n_claims: int
    n_questions: int
    n_kept: int
    n_wrong: int
    n_answers: int
    n_given: int
    support: str

    def __post_init__(self) -> None:
        for name in ("risk", "confidence", "bound"):
            share(getattr(self, name), f'"{name}"', advice=_REMEDY)
        for name in ("n_claims", "n_questions", "n_kept", "n_wrong", "n_answers", "n_given"):
            integer(getattr(self, name), f'"{name}"', least=0, advice=_REMEDY)

    def __str__(self) -> str:
        claims, questions = quantity(self.n_claims, "claim"), quantity(self.n_questions, "question")
        kept, given = self.n_kept / max(self.n_claims, 1), self.n_given / max(self.n_answers, 1)
        wrong = self.n_wrong / max(self.n_kept, 1)
        return (
            f"it keeps {self.n_kept} of {claims} ({kept:.1%}) of {questions}, {self.n_wrong} wrong ({wrong:.1%}), in "
            f"{self.n_given} of {quantity(self.n_answers, 'answer')} ({given:.1%}); the share of wrong claims is at "
            f"most {self.bound:.1%} with confidence {self.confidence:g}"
        )


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """Keeps a claim that the other models support, marks one that they support somewhat, and drops the rest.

    The default values are a plain choice for `Overlap`; for a stated risk, `coe-agents calibrate --claims` chooses.

    Args:
        min_support: A claim with at least this support by the other models is kept.
        mark_from: One with less, but at least this support is given with a mark; None marks none.
        calibration: What it was chosen on; None where nobody calibrated.

    Raises:
        ValueError: If a support is not in [0, 1], or `mark_from` is above `min_support`.

    Example:
        >>> ClaimPolicy(0.75, mark_from=0.5).actions([0.8, 0.6, 0.2])
        ['keep', 'mark', 'drop']
    """

    min_support: float = 0.75
    mark_from: float | None = 0.5
    calibration: ClaimCalibration | None = None

    def __post_init__(self) -> None:
        share(self.min_support, '"min_support"', advice="0.75 keeps what most others say")
        if self.mark_from is not None:
            share(self.mark_from, '"mark_from"', advice="None marks no claim")
            if self.mark_from > self.min_support:
                wanted = f'"mark_from" must be at most "min_support", {self.min_support:g}'
                raise ValueError(f"{wanted}; got {self.mark_from:g}. Lower it, or pass None")

    def actions(self, between: npt.ArrayLike) -> list[ClaimAction]:
        """Returns what becomes of each claim, by its support between models; NaN, no other model, is dropped."""
        low = self.min_support if self.mark_from is None else self.mark_from
        values = np.asarray(between, dtype=np.float64)
        return ["keep" if v >= self.min_support - TIE else "mark" if v >= low - TIE else "drop" for v in values]

    def save(self, path: str | Path) -> None:
        """Writes the policy as JSON, in one step."""
        write(Path(path), f"{json.dumps({'format': _FORMAT, **asdict(self)}, indent=1)}\n".encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else.
        """
        hint = '"coe-agents calibrate X.claims.jsonl --claims overlap" writes one'
        return load_saved(path, cls._from_json, what="claim policy", form=_FORMAT, hint=hint)

    @classmethod
    def _from_json(cls, record: Mapping[str, Any]) -> Self:
        found = record["calibration"]
        calibration = None if found is None else ClaimCalibration(**found)
        return cls(record["min_support"], record["mark_from"], calibration)


def compose(text: str, places: Sequence[tuple[int, int]], claims: Sequence[str], actions: Sequence[ClaimAction]) -> str:
    """Returns a draft with what is left of it: dropped claims become `GAP`, and what is given with a mark has `MARK`.

    Where only some claims of a sentence are dropped, the others stand in its place.

    Args:
        text: The draft.
        places: Where the sentence of each claim begins and ends, in the order of the text.
        claims: The text of each claim.
        actions: What becomes of each.

    Example:
        >>> compose("A is so. B is not.", [(0, 8), (9, 18)], ["A is so.", "B is not."], ["keep", "drop"])
        'A is so. [...]'
    """
    parts, end, was_gap = list[str](), 0, False
    for start, stop in dict.fromkeys(places):
        of = [number for number, place in enumerate(places) if place == (start, stop)]
        done = [actions[number] for number in of]
        given = [claims[number] for number in of if actions[number] != "drop"]
        whole = text[start:stop] if len(given) == len(of) else " ".join([*given, GAP])
        if not (was_gap and not given):  # one gap for all that is left out between what is given
            parts += [text[end:start], f"{whole} {MARK}" if "mark" in done else whole]
        end, was_gap = stop, not given
    return "".join([*parts, text[end:]]).strip()


GAP, MARK = "[...]", "[not confirmed]"
"""What stands in an answer where claims were left out, and behind a sentence with a claim that is given with a mark."""
