"""Owns `ClaimPolicy`: which claims are given, by the support of the other models."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from coe_agents._removed import refuses_removed
from coe_agents.checks import at_field, integer, share
from coe_agents.claims.splitting import is_marker, sentences
from coe_agents.decision.data import ClaimAction
from coe_agents.files import write
from coe_agents.policy.saved import load_saved
from coe_agents.text import printable, quantity
from coe_agents.types import Fields
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
        claims = quantity(self.n_claims, "claim")
        questions = quantity(self.n_questions, "question")
        answers = quantity(self.n_answers, "answer")
        kept = self.n_kept / max(self.n_claims, 1)
        wrong = self.n_wrong / max(self.n_kept, 1)
        given = self.n_given / max(self.n_answers, 1)
        return (
            f"it keeps {self.n_kept} of {claims} ({kept:.1%}) of {questions}, {self.n_wrong} wrong ({wrong:.1%}), in "
            f"{self.n_given} of {answers} ({given:.1%}); the share of wrong claims is at "
            f"most {self.bound:.1%} with confidence {self.confidence:g}"
        )


@refuses_removed
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
                message = f"{wanted}; got {self.mark_from:g}. Lower it, or pass None"
                raise at_field(ValueError(message), "mark_from")

    @property
    def least_support(self) -> float:
        """The support below which a claim is dropped."""
        return self.min_support if self.mark_from is None else self.mark_from

    def actions(self, between: npt.ArrayLike) -> list[ClaimAction]:
        """Returns what becomes of each claim, by its support between models; NaN, no other model, is dropped."""
        actions = list[ClaimAction]()
        for support in np.asarray(between, dtype=np.float64):
            if support >= self.min_support - TIE:
                actions.append("keep")
            elif support >= self.least_support - TIE:
                actions.append("mark")
            else:
                actions.append("drop")
        return actions

    def save(self, path: str | Path) -> None:
        """Writes the policy as JSON, in one step."""
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1)
        write(Path(path), f"{text}\n".encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else.
        """
        hint = '"coe-agents calibrate X.claims.jsonl --claims overlap" writes one'
        return load_saved(path, cls._from_json, what="claim policy", form=_FORMAT, hint=hint)

    @classmethod
    def _from_json(cls, record: Fields) -> Self:
        calibration = record["calibration"]
        if calibration is not None:
            calibration = ClaimCalibration(**calibration)
        return cls(record["min_support"], record["mark_from"], calibration)


def compose(
    text: str,
    places: Sequence[tuple[int, int]],
    claims: Sequence[str],
    actions: Sequence[ClaimAction],
) -> str:
    r"""Returns what the claims that are given cover of a draft, and nothing else of it.

    A sentence stands as it is written where its claims, each an extract of it, have all of its
    words; elsewhere the given claims stand in its place. Of what is between two claims only its
    line breaks are given, and that a list item begins. `GAP` stands where claims are dropped and
    where a sentence has none, `MARK` behind what is given with a mark. What does not show is
    replaced.

    Args:
        text: The draft.
        places: Where the sentence of each claim begins and ends.
        claims: The text of each claim.
        actions: What becomes of each.

    Example:
        >>> places, claims = [(6, 14), (15, 24)], ["A is so.", "B is not."]
        >>> compose("# So\n\nA is so. B is not.", places, claims, ["keep", "drop"])
        'A is so. [...]'
    """
    # a model may find several claims in one sentence
    numbers_at: dict[tuple[int, int], list[int]] = {}
    for number, place in enumerate(places):
        numbers_at.setdefault(place, []).append(number)

    parts = list[str]()
    end = 0

    def leave_out(space: str) -> None:
        # one gap for all that is left out between what is given
        if not parts or parts[-1] != GAP:
            parts.extend((space, GAP))

    for (start, stop), numbers in sorted(numbers_at.items()):
        actions_here = {actions[number] for number in numbers}
        given = list[str]()
        for number in numbers:
            if actions[number] != "drop" and claims[number] not in given:
                given.append(claims[number])

        space = _space(text, end, start)
        if _states_something(text[end:start]):
            leave_out(space)
        if given:
            sentence = text[start:stop]
            if not _covers(given, sentence):
                sentence = " ".join(given)
            parts.append(space)
            parts.append(_item(text, start))
            parts.append(printable(sentence, keep="\n\t"))
            if "mark" in actions_here:
                parts.append(f" {MARK}")
        if "drop" in actions_here:
            leave_out(" " if given else space)
        end = max(end, stop)

    if _states_something(text[end:]):
        leave_out(_space(text, end, len(text)))
    return "".join(parts).strip()


def _states_something(text: str) -> bool:
    return bool(text.strip()) and bool(sentences(text))


def _space(text: str, end: int, start: int) -> str:
    """Returns the white space between two claims: all that is given of the text between them."""
    if start == end:
        return ""  # as in scripts that write no spaces
    n_lines = text[end:start].count("\n")
    return "\n" * min(n_lines, 2) or " "


def _item(text: str, start: int) -> str:
    """Returns the sign of a list item, if a claim is the first of one.

    It is the same for all: a number could tell something.
    """
    start_of_line = text.rfind("\n", 0, start) + 1
    before = text[start_of_line:start]
    # the signs of a quotation are no item's
    has_sign = bool(before.strip(" \t>"))
    return "- " if has_sign and is_marker(before) else ""


def _covers(claims: Sequence[str], sentence: str) -> bool:
    """Returns whether every word and sign of a sentence belongs to a claim that is its extract."""
    pieces = _PIECE.findall(sentence.casefold())
    uncovered = {place for place, piece in enumerate(pieces) if piece not in _JOINING}
    for claim in claims:
        places = list[int]()
        start = 0
        try:
            for piece in _PIECE.findall(claim.casefold()):
                place = pieces.index(piece, start)
                places.append(place)
                start = place + 1
        except ValueError:
            continue  # it is no extract
        uncovered.difference_update(places)
    return not uncovered


_PIECE = re.compile(r"\w+|[^\w\s]")
_JOINING = frozenset((",", ";", "and"))
GAP, MARK = "[...]", "[not confirmed]"
"""What stands where something was left out, and behind what is given with a mark."""
