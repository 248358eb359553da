"""Owns the commands `audit` and `harvest`, and what `calibrate --current` does with rulings."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.calibrate import end_without_policy, print_use
from coe_agents.cli.inputs import create_setting, judge_saved, load_policy
from coe_agents.cli.options import JsonOption, ScoringOptions
from coe_agents.cli.stores import open_store
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.errors import SamplesError
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.decision.case import RecordedCase
    from coe_agents.rulings.audits import Recalibration, Seen
    from coe_agents.types import SampledQuestion

_HOW_TO_AUDIT = (
    "--audit-rate 0.05 of ask and serve, beside --record; audit_rate = 0.05 in [record] of the configuration; or in "
    "Python on_decision=Recording(audit_rate=0.05), of create_coe_graph or of the gate"
)
StoreOption = Annotated[
    str,
    typer.Option(
        help="The store in which a graph recorded cases: the path of an SQLite file, or postgresql://USER@HOST/NAME."
    ),
]


def harvest(
    store: StoreOption,
    out: Annotated[Path, typer.Option(help="Where to write the samples, as FILE.samples.jsonl.")],
    cases: Annotated[
        Path | None,
        typer.Option(
            help="Where to append ruled audits that it does not hold yet, for `drift --cases`."
        ),
    ] = None,
) -> None:
    """Write what people ruled on recorded cases as samples, for `calibrate --current` and `advise`.

    Each sample has the probability with which its case was seen: the audit rate for an answer, 1 for an escalation.
    """
    from coe_agents.files import write
    from coe_agents.rulings.recorded import case_row, sample_rows
    from coe_agents.rulings.recorded import cases as recorded

    with open_store(store) as opened:
        every_case = recorded(opened)  # all of them, so that an unknown status is an error

    lines = []
    labelled = []
    counted = Counter[str]()
    n_waiting = 0
    n_abstained = 0
    for case in every_case:
        if case["status"] != "ruled":
            n_waiting += 1
            continue
        audited = case_row(case)
        if audited is not None:
            labelled.append(audited)

        rows = list(sample_rows(case))
        if rows:
            counted[case["kind"]] += 1
        else:
            n_abstained += 1
        for row in rows:
            lines.append(json.dumps(row) + "\n")
    write(out, "".join(lines).encode())

    audits = quantity(counted["audit"], "audited case")
    if counted["observed"]:
        audits += ", " + quantity(counted["observed"], "observed block")
    escalations = quantity(counted["escalation"], "escalation")
    print_lines(f"{clean(str(out))}: {audits} and {escalations}; {_waiting(n_waiting)}.")
    if n_abstained:
        print_lines(f"Left out, since the person abstained: {n_abstained}.")
    if not counted["audit"]:
        print_lines(
            "Without audits nothing is known of the risk of what was let pass, or would have been (answers that were "
            "given, calls that no gate blocked), so that no threshold will be raised. To audit a share of it: "
            f"{_HOW_TO_AUDIT}."
        )
    if cases is not None:
        new = _append(cases, labelled)
        print_lines(f"{clean(str(cases))}: {quantity(new, 'new labelled answer')}.")


def audit(
    store: StoreOption,
    rule: Annotated[
        str | None,
        typer.Option(help="Id of the case to rule on; without it, pending ones are shown."),
    ] = None,
    right: Annotated[
        bool, typer.Option("--right", help="The answer was right; of a call: it should run.")
    ] = False,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="The answer was wrong; of a call: it should not run.")
    ] = False,
    answer: Annotated[
        str | None, typer.Option(help="The right answer, where it was wrong.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the recorded cases that wait for a person's ruling, or rule on one of them."""
    from coe_agents.rulings.recorded import pending_cases
    from coe_agents.rulings.recorded import rule as record_ruling

    has_ruled = right or wrong or answer is not None
    if rule is None and has_ruled:
        raise typer.BadParameter(
            "a ruling needs the id of a case. Add --rule ID", param_hint="--rule"
        )
    if rule is not None and not has_ruled:
        message = "a ruling must say what is right. Add --right, --wrong or --answer"
        raise typer.BadParameter(message, param_hint="--rule")
    if right and wrong:
        raise typer.BadParameter(
            "it cannot be combined with --right. Omit one of them", param_hint="--wrong"
        )
    with open_store(store) as opened:
        if rule is None:
            _show(pending_cases(opened), as_json=as_json)
            return
        correct = right if right or wrong else None
        try:
            case = record_ruling(opened, rule, correct=correct, answer=answer)
        except (KeyError, ValueError) as error:
            raise typer.BadParameter(clean(str(error.args[0])), param_hint="--rule") from error
    if as_json:
        print_json(case)
    else:
        print_lines(f"Recorded the ruling on {clean(rule)}.")


def _show(waiting: "list[RecordedCase]", *, as_json: bool) -> None:
    if as_json:
        print_json({"pending": waiting})
        return
    if not waiting:
        print_lines("No case waits for a ruling.")
        return
    print_lines(f"{_waiting(len(waiting))}:")
    for case in waiting:
        what = "was escalated; the leading answer is"
        if case["kind"] == "observed":
            what = "would have been blocked"
        elif case["kind"] == "audit":
            what = "was let through"
        print_lines(f"\n{case['id']}  {case['time']}\n  {clean(case['question'], 500)}")
        print_lines(f"  {what}: {clean(str(case['answer']), 500)}")


def _waiting(n: int) -> str:
    return f"{quantity(n, 'case waits', 'cases wait')} for a ruling"


def _append(path: Path, rows: list[dict[str, Any]]) -> int:
    from coe_agents.evaluation.calibration.drift import read_cases
    from coe_agents.evaluation.samples.store import sole_writer
    from coe_agents.files import append

    # without a lock two processes would append the same cases
    with sole_writer(path, path.with_name(f".{path.name}.lock")):
        known = set()
        lines = []
        if path.exists():
            known = {case.id for case in read_cases(path)}
            if path.read_bytes()[-1:] not in (b"", b"\n"):
                lines.append("\n")  # ends the last line, which is whole

        new = [row for row in rows if row["id"] not in known]
        for row in new:
            lines.append(json.dumps(row) + "\n")
        if new:
            with path.open("ab") as file:
                append(file.fileno(), "".join(lines).encode(), path=path)
    return len(new)


def recalibrate_policy(
    samples: list[Path],
    scoring: ScoringOptions,
    current: Path,
    estimator: str | None,
    out: Path,
    *,
    risk: float,
    confidence: float,
) -> None:
    """Chooses the threshold of the `current` policy again, on samples of rulings: `calibrate --current`."""
    from coe_agents.rulings.audits import recalibrate

    setting, judging = create_setting(scoring, samples)
    policy = load_policy(current, estimator)
    former = policy.calibration
    name = type(setting.clusterer).__name__
    if name != former.clusterer:
        raise typer.BadParameter(
            f"the policy was calibrated with {clean(former.clusterer)}; got {name}. Name the same one",
            param_hint="--clusterer",
        )

    seen: dict[str, Seen] = {}
    rows, _ = judge_saved(
        samples,
        setting,
        scoring,
        check=lambda questions: _note_seen(questions, seen),
        every_cluster=former.chooses_answer,
        weights=former.weights,
        score=former.score,
        estimator=former.estimator,
    )
    recalibration = recalibrate(policy, rows, seen, risk=risk, confidence=confidence)
    is_usable = recalibration.policy.calibration.threshold is not None
    if is_usable:
        recalibration.policy.save(out)

    mismatches: dict[str, None] = {}
    for row in rows:
        mismatches |= dict.fromkeys(policy.mismatches(row.measurement))
    for mismatch in mismatches:
        print_lines(f"mismatch: {mismatch}")
    print_lines(_describe(recalibration, former.threshold, risk=risk, confidence=confidence))
    if recalibration.n_below:
        passing = quantity(recalibration.n_below, "escalation passes", "escalations pass")
        print_lines(
            f"note: {passing} the present threshold, escalated by a former, lower one or by another part, such as a "
            "guard before the policy. Thresholds were chosen with and without them, and the stricter one is used."
        )
    print_lines(judging.note())
    if not is_usable:
        end_without_policy(out)
    print_use(out)


def _note_seen(
    questions: "Iterable[SampledQuestion]", seen: "dict[str, Seen]"
) -> "Iterator[SampledQuestion]":
    """Passes the questions on, and notes in `seen` how each came to be seen, which all its samples must say alike."""
    from coe_agents.rulings.audits import Seen

    for question in questions:
        try:
            for sample in (*question.responses, *question.failures):
                how = Seen.of(sample)
                noted = seen.setdefault(question.id, how)
                if how != noted:
                    raise ValueError(
                        f"its samples must agree how it was seen; got {noted} and {how}"
                    )
        except (TypeError, ValueError) as error:
            hint = "Pass samples that `coe-agents harvest` wrote"
            raise SamplesError(f"the case {question.id[:50]!r}: {error}", hint=hint) from error
        yield question


def _describe(
    recalibration: "Recalibration", before: float | None, *, risk: float, confidence: float
) -> str:
    calibration = recalibration.policy.calibration
    outcome = recalibration.outcome
    escalations = quantity(recalibration.n_escalations, "escalation")
    cases = f"{quantity(recalibration.n_audits, 'audited answer')} and {escalations}"
    sure = f"confidence {confidence:g}"
    if outcome == "unaudited":
        return (
            f"The threshold stays: no answer was audited, and {escalations} cannot show the "
            f"risk of answers.\nAudit a share of them: {_HOW_TO_AUDIT}."
        )
    if outcome == "few":
        return f"The threshold stays: {cases} are too few to show a risk of {risk:g} with {sure}."
    if calibration.threshold is None:
        return (
            f"No threshold is shown to keep a risk of {risk:g} with {sure} on {cases}, not even the "
            "present one. Take it out of use, raise the risk, or audit more answers."
        )
    changes = {"same": "The threshold stays", "raised": "More is answered"}
    change = changes.get(outcome, "Less is answered")
    limit = calibration.limit_in_words(calibration.threshold)
    if before is not None and outcome != "same":
        limit += f" (before: {calibration.limit_in_words(before)})"
    bound = f"the risk is at most {calibration.bound:.1%} with {sure}"
    return f"{change}. Answer where {limit}, on {cases}: {bound}."
