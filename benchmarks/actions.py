"""Prints how well a group's tool calls tell which of them are wrong, on the calls of real systems.

    python benchmarks/actions.py FOLDER [HALVES] [--write FILE]

FOLDER holds `act_bfcl_open.dev.jsonl.gz` (prompts of the Berkeley Function Calling Leaderboard, one proposal of each of
five systems, the checker's verdicts) and `act_tau_airline.dev.jsonl.gz` (four trials of one model). Prompts where a
call is right ("call") and where none is ("no call") are known apart in the data, not to a gate: what is calibrated or
learned sees both together ("mixed").

"Is this proposal wrong?" is asked of every system's proposal; figures are means over the proposers. Intervals are 95 %
percentile intervals of a bootstrap over prompts, paired where two figures are compared.
"""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from calibn import records
from result_page import result_page

from coe_agents.actions import ActionMatch, canonical_action, contested
from coe_agents.evaluation import Samples
from coe_agents.evaluation.calibration.calibrate import calibrate, judge_samples
from coe_agents.evaluation.calibration.learned import fit_support, to_folds
from coe_agents.evaluation.metrics.bootstrap import resamples, with_interval
from coe_agents.evaluation.metrics.tallies import Ranking, Tally, area_under_roc, join_ties
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.uncertainty import cluster_distributions, collaborative_entropy
from coe_agents.uncertainty.ties import TIE

N_RESAMPLES, RISK, CONFIDENCE, HALVES, HALVES_LEARNED = 1000, 0.1, 0.9, 200, 50
FIVE = (
    "AIREV-Agent-0.8B",
    "Qwen3-4B-Instruct-2507",
    "Qwen3-8B",
    "gemma4-e4b-toolcall-v02",
    "glyphh-ada-1.1",
)
FOUR = tuple(name for name in FIVE if not name.startswith("gemma4"))
"""Those that answered the prompts where no call is right, too."""


def main() -> None:
    folder = Path(sys.argv[1])
    n_halves = int(sys.argv[2]) if len(sys.argv) > 2 else HALVES
    found = list(records(folder / "act_bfcl_open.dev.jsonl.gz"))
    calls = Proposals.of([each for each in found if each["kind"] == "call"], FIVE)
    mixed = Proposals.of([each for each in found if each["kind"] in ("call", "no_call")], FOUR)
    show_failure(mixed)
    for title, proposals in (
        ("a call is right", calls),
        ("no call is right", mixed.where(~mixed.is_call)),
    ):
        show_support(f"prompts where {title}", proposals)
    show_support("mixed", mixed)
    for title, proposals in (("a call is right", calls), ("mixed", mixed)):
        show_exactness(title, proposals)
    for title, proposals in (("a call is right", calls), ("mixed", mixed)):
        show_votes(title, proposals)
    show_learned(mixed)
    show_councils(calls)
    show_contested([each for each in found if each["kind"] == "call"])
    show_trials(list(records(folder / "act_tau_airline.dev.jsonl.gz")))
    show_calibration(mixed, n_halves)


@dataclass(frozen=True, eq=False)
class Proposals:
    """One proposal of each system to each prompt.

    Attributes:
        records: The prompts, as they are on disk.
        names: The systems.
        labels: Shape `(n_prompts, n_systems)`: the cluster of each proposal, by the package's `ActionMatch`.
        loose: The same, with `text="loose"`, the rule of 0.2.
        hashes: The same, by the data's own rules (equal but for case, space and punctuation).
        right: Shape `(n_prompts, n_systems)`: the checker's verdicts.
        nothing: Whether each proposal calls nothing.
        is_call: Shape `(n_prompts,)`: whether a call is right.
    """

    records: Sequence[dict]
    names: tuple[str, ...]
    labels: np.ndarray
    loose: np.ndarray
    hashes: np.ndarray
    right: np.ndarray
    nothing: np.ndarray
    is_call: np.ndarray

    @classmethod
    def of(cls, found: Sequence[dict], names: tuple[str, ...]) -> "Proposals":
        kept = sorted(
            (each for each in found if all(each["responses"].get(n) for n in names)),
            key=lambda r: r["id"],
        )
        labels = []
        for text in ("exact", "loose"):
            with samples_of(kept, names) as questions:
                statistics = list(iter_statistics(questions, clusterer=ActionMatch(text=text)))
            assert [each.question.id for each in statistics] == [each["id"] for each in kept]
            labels.append(np.array([each.labels for each in statistics]))
        first = [[each["responses"][name][0] for name in names] for each in kept]
        return cls(
            kept,
            names,
            *labels,
            np.array([[hash(one["action"]) for one in row] for row in first]),
            np.array([[bool(one["correct"]) for one in row] for row in first]),
            np.array([[not one["calls"] for one in row] for row in first]),
            np.array([each["kind"] == "call" for each in kept]),
        )

    def where(self, rows: np.ndarray) -> "Proposals":
        arrays = (self.labels, self.loose, self.hashes, self.right, self.nothing, self.is_call)
        return Proposals(
            [self.records[i] for i in np.flatnonzero(rows)],
            self.names,
            *(each[rows] for each in arrays),
        )

    @property
    def places(self) -> range:
        return range(len(self.names))

    def strongest_others(self, place: int, n: int) -> tuple[int, ...]:
        """The systems that are right most often, but for one."""
        order = sorted(
            (i for i in self.places if i != place), key=lambda i: -self.right[:, i].mean()
        )
        return tuple(order[:n])

    def subsets(self, place: int, n: int) -> Iterator[tuple[int, ...]]:
        return combinations([i for i in self.places if i != place], n)


def support(labels: np.ndarray, place: int, others: Sequence[int]) -> np.ndarray:
    """1 - the share of the others that propose the same."""
    return 1.0 - (labels[:, list(others)] == labels[:, [place]]).mean(axis=1)


def group_coe(labels: np.ndarray, group: Sequence[int]) -> np.ndarray:
    chosen = labels[:, list(group)]
    firsts = np.array([[row.index(label) for label in row] for row in chosen.tolist()])
    rows = cluster_distributions(firsts, np.arange(len(group)), n_clusters=len(group))
    return np.asarray(collaborative_entropy(rows).total)


class Figure:
    """A mean of metrics over rankings of the same prompts, with its bootstrap.

    All figures of as many prompts are resampled alike, so that differences are paired.
    """

    def __init__(
        self, scored: Sequence[tuple[np.ndarray, np.ndarray]], metric=area_under_roc
    ) -> None:
        rankings = [Ranking(right, join_ties(uncertainty)) for right, uncertainty in scored]
        self.value = float(np.mean([metric(ranking.tally())[0] for ranking in rankings]))
        blocks = resamples(len(scored[0][0]), n_resamples=N_RESAMPLES)
        self.drawn = np.concatenate(
            [
                np.mean([metric(ranking.tally(counts)) for ranking in rankings], axis=0)
                for counts in blocks
            ]
        )

    def __str__(self) -> str:
        value, low, high = with_interval(self.value, self.drawn)
        return f"{value:.3f} [{low:.3f}, {high:.3f}]"

    def less(self, other: "Figure") -> str:
        value, low, high = with_interval(self.value - other.value, self.drawn - other.drawn)
        return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


class Mean(Figure):
    """The mean of a value of each prompt, with its bootstrap."""

    def __init__(self, values: np.ndarray) -> None:
        self.value = float(np.mean(values))
        blocks = resamples(len(values), n_resamples=N_RESAMPLES)
        self.drawn = np.concatenate([counts @ values / len(values) for counts in blocks])


def coverage_at(risk: float):
    """The largest share that a threshold can answer with at most `risk` wrong, for each resample; ties stay together.

    0 where no threshold keeps the risk. Of resamples it is a little too low: see `Ranking.tally`.
    """

    def measure(tally: Tally) -> np.ndarray:
        passes = tally.answers - tally.right <= risk * tally.answers + TIE
        return np.asarray((tally.answers * passes).max(axis=1) / tally.answers[:, -1])

    return measure


def show_failure(mixed: Proposals) -> None:
    """The failure mode: models that are wrong to call a tool agree that one is to be called."""
    n_none = int((~mixed.is_call).sum())
    print(
        f"Several models call a tool where none is right: of {n_none} such prompts, in the first share below. Of these"
    )
    print(
        "wrong calls, a gate that asks whether most of the three others call a tool, too, lets the second share pass;"
    )
    print(
        "one that asks whether most propose the very same call, the third. So agreement on calling is not agreement on"
    )
    print("a call; whether to call at all has a threshold of its own, and is reported separately.")
    print(
        "AUROC: how well the share of the others that call tells whether any call is right (0.5 is chance)."
    )
    for place, name in enumerate(mixed.names):
        others = [i for i in mixed.places if i != place]
        calling = ~mixed.nothing[:, place]
        share_calling = (~mixed.nothing[:, others]).mean(axis=1)
        same = 1.0 - support(mixed.labels, place, others)
        needless = ~mixed.is_call & calling
        figure = Figure([(mixed.is_call[calling].astype(float), 1.0 - share_calling[calling])])
        print(
            f"  {name:24} calls {needless.sum() / n_none:.3f}; "
            f"pass {most(share_calling[needless])}, {most(same[needless])}; AUROC {figure}"
        )


def most(shares: np.ndarray) -> str:
    return f"{(shares > 0.5).mean():.3f}"


def show_support(title: str, proposals: Proposals) -> None:
    n, n_others = len(proposals.right), len(proposals.names) - 1
    own = ", ".join(
        f"{name} {share:.3f}"
        for name, share in zip(proposals.names, proposals.right.mean(0), strict=True)
    )
    print(f'\nAUROC of "this proposal is wrong", {title}: {n} prompts; right: {own}')

    def mean_of(score, pick) -> Figure:
        return Figure(
            [
                (proposals.right[:, i].astype(float), score(i, each))
                for i in proposals.places
                for each in pick(i)
            ]
        )

    def by(labels):
        return lambda place, others: support(labels, place, others)

    all_of = {
        k: mean_of(by(proposals.labels), lambda i, k=k: proposals.subsets(i, k))
        for k in range(1, n_others + 1)
    }
    best_of = {
        k: mean_of(by(proposals.labels), lambda i, k=k: [proposals.strongest_others(i, k)])
        for k in range(1, 4)
    }
    hashed = {
        k: mean_of(by(proposals.hashes), lambda i, k=k: [proposals.strongest_others(i, k)])
        for k in range(1, 4)
    }
    coe = {
        k: mean_of(
            lambda i, others: group_coe(proposals.labels, (i, *others)),
            lambda i, k=k: [proposals.strongest_others(i, k)],
        )
        for k in (1, 2, 3)
    }
    entropy = mean_of(lambda i, _: np.zeros(n), lambda i: [()])
    print(f"  own entropy, of one response                    {entropy}")
    for k, figure in all_of.items():
        print(f"  support of {k}, mean over all choices of others   {figure}")
    for k, figure in best_of.items():
        by_hash = f"equal by the data's rules: {hashed[k].value:.3f}"
        print(f"  support of the {k} strongest others               {figure}   {by_hash}")
    print(
        f"  CoE of these three and the proposer             {coe[3]}   support less CoE: {best_of[3].less(coe[3])}"
    )
    print("  by proposer, support of the 1, 2 and 3 strongest others:")
    for i, name in enumerate(proposals.names):
        right, strongest = proposals.right[:, i].astype(float), proposals.strongest_others(i, 3)
        few = ", ".join(
            str(Figure([(right, support(proposals.labels, i, strongest[:k]))])) for k in (1, 2, 3)
        )
        print(
            f"    {name:24} {few}, CoE {Figure([(right, group_coe(proposals.labels, (i, *strongest)))])}"
        )
    for risk in (0.05, 0.1):
        covered, by_coe = (
            Figure(
                [(proposals.right[:, i].astype(float), score(i)) for i in proposals.places],
                coverage_at(risk),
            )
            for score in (
                lambda i: support(proposals.labels, i, proposals.strongest_others(i, 3)),
                lambda i: group_coe(proposals.labels, (i, *proposals.strongest_others(i, 3))),
            )
        )
        print(
            f"  coverage at {risk:.0%} wrong: support of 3 {covered}, CoE {by_coe}; difference {covered.less(by_coe)}"
        )


def show_exactness(title: str, proposals: Proposals) -> None:
    """What it costs that two texts must be the same to the last character."""
    others = {i: tuple(j for j in proposals.places if j != i) for i in proposals.places}
    right = [proposals.right[:, i].astype(float) for i in proposals.places]
    print(
        f'\nexact equality, and text="loose" (case and white space do not count), support of all others, {title}:'
    )

    def compare(name: str, make) -> None:
        exact, loose = (
            make([support(labels, i, others[i]) for i in proposals.places])
            for labels in (proposals.labels, proposals.loose)
        )
        print(f"  {name:21} exact {exact}, loose {loose}, difference {exact.less(loose)}")

    compare("AUROC", lambda scores: Figure(list(zip(right, scores, strict=True))))
    compare("mean support", lambda scores: Mean(1.0 - np.mean(scores, axis=0)))
    for risk in (0.05, 0.1):
        name = f"coverage at {risk:.0%} wrong"
        compare(
            name,
            lambda scores, risk=risk: Figure(
                list(zip(right, scores, strict=True)), coverage_at(risk)
            ),
        )


def show_votes(title: str, proposals: Proposals) -> None:
    """Of the proposed calls, how many have so many votes, and how many of these are wrong."""
    called = ~proposals.nothing
    wrong = (called & ~proposals.right).sum() / called.sum()
    print(
        f"\nvotes: of n other systems at least k propose the same call, over all choices of these, {title}"
    )
    print(f"  {'ungated':12} let through 1.000, wrong {wrong:.3f}")
    n_others = len(proposals.names) - 1
    for n, least in ((3, (2, 3)), (4, (3, 4)), (5, (3, 4)), (7, (4, 5))):
        if n > n_others:
            print(f"  n = {n}: not in these data, which have {n_others} other systems")
            continue
        for k in least:
            n_called, n_passed, n_wrong = 0, 0, 0
            for i in proposals.places:
                for chosen in proposals.subsets(i, n):
                    votes = (proposals.labels[:, list(chosen)] == proposals.labels[:, [i]]).sum(
                        axis=1
                    )
                    passes = called[:, i] & (votes >= k)
                    n_called += called[:, i].sum()
                    n_passed += passes.sum()
                    n_wrong += (passes & ~proposals.right[:, i]).sum()
            print(
                f"  n = {n}, k = {k} let through {n_passed / n_called:.3f}, wrong {n_wrong / n_passed:.3f}"
            )


def show_learned(mixed: Proposals) -> None:
    """Learned weights, fitted on the other four of five folds; nothing says whether a call is right at all."""
    print(
        "\nlearned support of the three others, fitted on the other four of five folds of the mixed prompts"
    )
    plain, learned = [], []
    for i, name in enumerate(mixed.names):
        rows = judged(mixed, name)
        wrong = 1.0 - np.array([row.correct for row in rows])
        fold, scores = to_folds([row.id for row in rows], wrong), np.empty(len(rows))
        for number in range(5):
            outside = np.flatnonzero(fold != number)
            gate = fit_support(
                [rows[j].measurement for j in outside], 1.0 - wrong[outside], proposer=name
            )
            for j in np.flatnonzero(fold == number):
                scores[j] = gate.uncertainty(rows[j].measurement)
        plain.append(support(mixed.labels, i, [j for j in mixed.places if j != i]))
        learned.append(scores)
    for title, rows in (
        ("mixed", np.ones(len(mixed.right), dtype=bool)),
        ("a call is right", mixed.is_call),
        ("no call is right", ~mixed.is_call),
    ):
        right = [mixed.right[rows, i].astype(float) for i in mixed.places]
        one, two = (
            Figure([(own, score[rows]) for own, score in zip(right, each, strict=True)])
            for each in (learned, plain)
        )
        print(f"  AUROC, {title:17} learned {one}, plain {two}, difference {one.less(two)}")
    right = [mixed.right[:, i].astype(float) for i in mixed.places]
    for risk in (0.05, 0.1):
        one, two = (
            Figure(list(zip(right, each, strict=True)), coverage_at(risk))
            for each in (learned, plain)
        )
        print(
            f"  coverage at {risk:.0%} wrong, mixed: learned {one}, plain {two}, difference {one.less(two)}"
        )
    for i, name in enumerate(mixed.names):
        one, two = (Figure([(right[i], each[i])]) for each in (learned, plain))
        print(f"    {name:24} learned {one}, plain {two}, difference {one.less(two)}")


def show_councils(calls: Proposals) -> None:
    best = int(calls.right.mean(axis=0).argmax())
    alone = Mean(calls.right[:, best].astype(float))
    print(
        "\naccuracy of the plurality where a call is right; a tie counts by the share of right actions in the lead"
    )
    print(f"  the best member alone ({calls.names[best]})   {alone}")
    for size in (3, 5):
        groups = list(combinations(calls.places, size))
        council = Mean(np.mean([plurality(calls, group) for group in groups], axis=0))
        title = f"council of {size}{', mean over all' if len(groups) > 1 else ''}"
        print(f"  {title}: {council}, less the best {council.less(alone)}")
    led = Mean(plurality(calls, tuple(calls.places), tie_by=best))
    print(
        f"  council of 5, ties resolved by the best member: {led}, less the best {led.less(alone)}"
    )


def plurality(calls: Proposals, group: Sequence[int], *, tie_by: int | None = None) -> np.ndarray:
    found = []
    for labels, right in zip(
        calls.labels[:, list(group)].tolist(), calls.right[:, list(group)], strict=True
    ):
        votes = Counter(labels)
        lead = [label for label, n in votes.items() if n == max(votes.values())]
        if tie_by is not None and labels[tie_by] in lead:
            lead = [labels[tie_by]]
        shares = [
            np.mean([r for label, r in zip(labels, right, strict=True) if label == one])
            for one in lead
        ]
        found.append(float(np.mean(shares)))
    return np.array(found)


def show_contested(found: Sequence[dict]) -> None:
    """Whether the argument with most votes against a proposal is the one that is wrong."""
    hits, n_errors = [], 0
    for record in sorted(found, key=lambda each: each["id"]):
        calls = {
            name: to_calls(record["responses"][name][0])
            for name in FIVE
            if record["responses"].get(name)
        }
        for name, own in calls.items():
            wrong = record["responses"][name][0].get("wrong_args") or ()
            known = {
                arg
                for each in calls.values()
                for call in each
                if own and call["name"] == own[0]["name"]
                for arg in call["args"]
            }
            if len(wrong) != 1 or len(own) != 1 or len(known) < 2:
                continue
            n_errors += 1
            if order := contested_order(record, calls, name):
                args = own[0]["args"]
                longest = max(args, key=lambda arg: (len(json.dumps(args[arg])), arg), default=None)
                hits.append((order[0] == wrong[0], 1.0 / len(known), longest == wrong[0]))
    votes, chance, longest = (Mean(column) for column in np.array(hits, dtype=float).T)
    print(
        f"\nthe wrong argument of {n_errors} proposals of one call with exactly one, of two or more that were proposed;"
    )
    print(
        f"in {len(hits)} of them ({len(hits) / n_errors:.3f}) another system objects to some argument"
    )
    print(f"  the one with most votes against the proposal is the wrong one: {votes}")
    print(f"  one at random: {chance}; the one with the longest value: {longest}")
    print(f"  most votes less random {votes.less(chance)}, less longest {votes.less(longest)}")


def contested_order(record: dict, calls: dict, proposer: str) -> list[str]:
    """The arguments in the order of votes against a proposal, as `decision["contested"]` has them."""
    tools, names = record["tools"], list(calls)
    actions = [canonical_action(calls[name], tools=tools) for name in names]
    clusterer = ActionMatch(tools)
    (labels,) = clusterer.cluster([actions], [""])
    found = contested(
        actions,
        np.full(len(names), 1.0 / len(names)),
        names,
        labels,
        leading=names.index(proposer),
        clusterer=clusterer,
    )
    return [] if found is None else list(found["arguments"])


def show_trials(found: Sequence[dict]) -> None:
    """One model by itself: its own entropy over four trials."""
    rows = [
        {
            **row,
            "calls": [
                each if each["name"] != "transfer_to_human_agents" else {**each, "args": {}}
                for each in row["calls"]
            ],
        }
        for record in found
        for row in to_samples(record, tuple(record["responses"]))
    ]
    trials = max(row["index"] for row in rows) + 1
    scored = []
    for first in range(trials):  # each trial in turn is the proposal
        turned = [{**row, "index": (row["index"] - first) % trials} for row in rows]
        with opened(turned) as questions:
            statistics = list(
                iter_statistics(questions, clusterer=ActionMatch(), proposer=rows[0]["agent"])
            )
        right = np.array([float(each.responses[each.proposal]["correct"]) for each in statistics])
        scored.append(
            (
                right,
                np.array([each.measurement.agents[each.proposer].entropy for each in statistics]),
            )
        )
    accuracy = np.mean([right for right, _ in scored])
    print(f"\n{len(found)} tasks of tau-bench, {trials} trials of one model ({accuracy:.3f} right)")
    print(f"  AUROC of its own entropy, mean over the trials  {Figure(scored)}")


def show_calibration(mixed: Proposals, n_halves: int) -> None:
    n_of = {"threshold": n_halves, "learned": min(n_halves, HALVES_LEARNED)}
    print(
        f"\nrisk {RISK}, confidence {CONFIDENCE}: calibrated on a random half of the mixed prompts, used on the other"
    )
    print(
        f"kept: the share of halves ({n_of['threshold']}, learned {n_of['learned']}) where at most {RISK} of what"
    )
    print(
        "passes is wrong, of all proposals; apart: of those that call a tool, and of those that call none"
    )
    for gate, n in n_of.items():
        for name in mixed.names:
            rows = judged(mixed, name)
            found = [on_half(rows, name, gate, seed) for seed in range(n)]
            risks, coverage = (np.array(each) for each in zip(*found, strict=True))
            kept = (np.nan_to_num(risks) <= RISK + 1e-9).mean(axis=0)
            print(
                f"  {gate:9} {name:24} coverage {coverage[:, 0].mean():.3f}, risk {np.nanmean(risks[:, 0]):.3f}, kept "
                f"{kept[0]:.3f}; apart {kept[1]:.3f}, {kept[2]:.3f}",
                flush=True,
            )


def on_half(rows, name, gate, seed):
    """Returns risk and coverage, of all proposals, of calls, and of no calls, on the half that was not seen."""
    order = np.random.default_rng(seed).permutation(len(rows))
    fitted, held_out = ([rows[i] for i in half] for half in np.split(order, [len(rows) // 2]))
    policy = calibrate(
        fitted,
        risk=RISK,
        confidence=CONFIDENCE,
        weights="equal" if gate == "threshold" else "learned",
        proposer=name,
        clusterer="ActionMatch",
        correctness="label",
    )
    record = policy.calibration
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        passes = np.array(
            [
                policy.decide(row.measurement, round=0, max_rounds=1).action == "answer"
                for row in held_out
            ]
        )
    wrong = 1.0 - np.array([row.correct for row in held_out])
    nothing = np.array([record.group_of(row.measurement) == () for row in held_out])
    risks, covered = [], []
    for kind in (np.ones_like(nothing), ~nothing, nothing):
        risks.append(wrong[passes & kind].mean() if (passes & kind).any() else np.nan)
        covered.append(passes[kind].mean() if kind.any() else np.nan)
    return risks, covered


@cache
def judged(proposals: Proposals, proposer: str):
    with samples_of(proposals.records, proposals.names) as questions:
        return judge_samples(questions, clusterer=ActionMatch(), proposer=proposer)


def to_calls(proposal: dict) -> list[dict]:
    return [{"name": call["name"], "args": call["arguments"]} for call in proposal["calls"] or []]


def to_samples(record: dict, names: Sequence[str]) -> Iterator[dict]:
    """Yields the samples of a prompt; what would have been right is not among them, but for the verdicts."""
    for name in names:
        for index, proposal in enumerate(record["responses"][name]):
            yield {
                "id": record["id"],
                "agent": name,
                "index": index,
                "text": proposal.get("text") or "",
                "calls": to_calls(proposal),
                "tools": record.get("tools"),
                "correct": bool(proposal["correct"]),
            }


@contextmanager
def opened(rows: Sequence[dict]) -> Iterator[Samples]:
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "actions.samples.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        with Samples([path]) as questions:
            yield questions


@contextmanager
def samples_of(found: Sequence[dict], names: Sequence[str]) -> Iterator[Samples]:
    with opened([row for record in found for row in to_samples(record, names)]) as questions:
        yield questions


if __name__ == "__main__":
    with result_page():
        main()
