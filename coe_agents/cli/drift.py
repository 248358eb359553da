"""Owns the command `drift`: whether a calibrated policy still fits, on new samples or on labelled answers."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from coe_agents.cli.inputs import create_setting, judge_saved, load_policy
from coe_agents.cli.options import (
    Exit,
    JsonOption,
    OptionalSamplesArgument,
    PolicyEstimatorOption,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.text import quantity
from coe_agents.types import Fields

if TYPE_CHECKING:
    from coe_agents.evaluation import RiskMonitor
    from coe_agents.evaluation.calibration.drift import Drift, RiskState
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.policy.calibrated import Calibration

DRIFT_EPILOG = (
    f"Exit status: {Exit.ANSWERED} the calibration still holds, {Exit.ABSTAINED} it does not."
)
_VERDICTS = {"kept": "kept", "broken": "broken", "open": "neither confirmed nor refuted"}
CasesOption = Annotated[
    Path | None,
    typer.Option(
        help="A file of labelled answers, one JSON object a line, in place of samples: do they break the stated risk?"
    ),
]
MinSeenOption = Annotated[
    float, typer.Option(help="With --cases: the lowest audit rate; 1 if every answer is judged.")
]


@expand_options
def drift(
    policy: Annotated[Path, typer.Argument(help="The file that calibrate wrote.")],
    scoring: ScoringOptions,
    samples: OptionalSamplesArgument = None,
    cases: CasesOption = None,
    min_seen: MinSeenOption = 1.0,
    estimator: PolicyEstimatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check on new samples, or on labelled answers, whether a calibrated policy still fits."""
    if cases is not None:
        if samples:
            raise typer.BadParameter(
                "it reads no samples. Omit them, or omit --cases", param_hint="--cases"
            )
        calibrated = load_policy(policy, estimator)
        _test_risk(calibrated.calibration.risk, cases, min_seen, as_json=as_json)
    if min_seen != 1.0:
        raise typer.BadParameter(
            "it needs --cases. Add --cases FILE, or omit it", param_hint="--min-seen"
        )
    if not samples:
        raise typer.BadParameter(
            "files of saved responses are needed, or --cases FILE", param_hint="'samples'"
        )
    _compare(load_policy(policy, estimator), samples, scoring, as_json=as_json)


def _compare(
    policy: "CalibratedPolicy", samples: list[Path], scoring: ScoringOptions, *, as_json: bool
) -> NoReturn:
    """Prints how new samples differ from those of the calibration; raises `typer.Exit` with the command's status."""
    from coe_agents.evaluation import check_drift
    from coe_agents.evaluation.calibration.drift import are_own_questions
    from coe_agents.evaluation.scoring.correctness import CRITERIA, on_inside

    calibration = policy.calibration
    by_name = calibration.correctness if calibration.correctness in CRITERIA else None
    setting, judging = create_setting(scoring, samples, calibrated=by_name)
    rows, n_silent = judge_saved(
        samples,
        setting,
        scoring,
        every_cluster=calibration.chooses_answer,
        proposer=calibration.proposer,
        weights=calibration.weights,
        score=calibration.score,
        estimator=calibration.estimator,
    )
    report = check_drift(
        policy, rows, clusterer=setting.clusterer, correctness=setting.criterion.name
    )
    if as_json:
        print_json({**asdict(report), "holds": report.holds, "judged": judging.to_json()})
    else:
        _print_drift(
            report, calibration, n_silent, is_of_own_questions=are_own_questions(calibration, rows)
        )
        print_lines(judging.note())
        print_lines(on_inside(rows, setting.criterion.name))
    raise typer.Exit(Exit.ANSWERED if report.holds else Exit.ABSTAINED)


def _print_drift(
    report: "Drift", calibration: "Calibration", n_silent: int, *, is_of_own_questions: bool
) -> None:
    moved = "have changed" if report.scores_changed else "show no change"
    print_lines(
        f"{quantity(report.n_questions, 'question')}: the uncertainties {moved} "
        f"(Kolmogorov-Smirnov {report.ks_statistic:.3f}, p = {report.p_value:.3g}); coverage {report.coverage:.1%}"
    )
    if report.risk_interval is not None:
        low, high = report.risk_interval
        judged = quantity(report.n_judged, "answer is", "answers are")
        print_lines(
            f"risk: {report.n_wrong} of {judged} wrong, {low:.1%} to {high:.1%} by one-sided "
            f"95 % bounds; the stated {calibration.risk:.1%} is {_VERDICTS[report.risk]}"
        )
    if is_of_own_questions:
        print_lines(
            "all uncertainties are those of the calibration: on its own questions this shows nothing, sample new ones"
        )
    if report.n_ties:
        print_lines(f"questions with a tied lead, which are never answered: {report.n_ties}")
    if n_silent:
        print_lines(f"questions without a response to judge: {n_silent}")
    if report.n_unmeasurable:
        lacking = quantity(report.n_unmeasurable, "question lacks", "questions lack")
        print_lines(f"{lacking} an agent that the learned support needs")
    for mismatch in report.mismatches:
        print_lines(f"mismatch: {mismatch}")


def _test_risk(risk: float, path: Path, min_seen: float, *, as_json: bool) -> NoReturn:
    """Reads labelled cases until they break the risk of a policy, and raises `typer.Exit` with the command's status."""
    from coe_agents.evaluation import RiskMonitor

    try:
        monitor = RiskMonitor(risk, min_seen=min_seen)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    cases = _read_until_broken(monitor, path)
    state = monitor.state
    figures = asdict(state)
    for name in ("since", "broken_at"):
        number = figures[name]
        id_and_time = (None, None) if number is None else cases[number - 1]
        figures[f"{name}_id"], figures[f"{name}_time"] = id_and_time
    if as_json:
        print_json({"risk": risk, **figures, "broken": state.broken})
    else:
        print_lines(_on_risk(risk, state, figures))
    raise typer.Exit(Exit.ABSTAINED if state.broken else Exit.ANSWERED)


def _read_until_broken(monitor: "RiskMonitor", path: Path) -> list[tuple[str, str | None]]:
    """Updates a monitor with cases until they break its risk; returns the id of each, and its time if known."""
    from coe_agents.evaluation.calibration.drift import read_cases

    cases = list[tuple[str, str | None]]()
    for case in read_cases(path):
        cases.append((case.id, case.time))
        try:
            state = monitor.update(1.0 - case.correct, seen_probability=case.seen_probability)
        except ValueError as error:
            message = f"the case {clean(case.id, 50)!r}: {error}"
            raise typer.BadParameter(message, param_hint="--min-seen") from error
        if state.broken:
            break
    return cases


def _on_risk(risk: float, state: "RiskState", figures: Fields) -> str:
    if not state.n_cases:
        return f"No labelled case yet: nothing is known of the stated risk of {risk:.3g}."
    limit = f"the limit {state.limit:.3g}"
    promise = f"A false alarm has a probability of at most {1.0 / state.limit:.3g}, however often you look."
    if not state.broken:
        return (
            f"After {quantity(state.n_cases, 'labelled answer')} there is no sufficient evidence that the stated risk "
            f"of {risk:.3g} is broken.\n"
            f"The evidence is {state.evidence:.3g}, {limit}; its highest value was {state.strongest:.3g}.\n"
            "This does not show that the risk is kept: calibrate on new samples for that."
        )
    count = quantity(figures["n_since"], "labelled answer was", "labelled answers were")
    return (
        f"The stated risk of {risk:.3g} is broken: answers are wrong more often.\n"
        f"It probably began near {_place(figures, 'since')}: since then {figures['risk_since']:.1%} of {count} wrong, "
        f"up to {_place(figures, 'broken_at')}.\n"
        f"The evidence is {state.evidence:.3g}, at or above {limit}. {promise}\n"
        "Answer less until you have calibrated again."
    )


def _place(figures: Fields, name: str) -> str:
    case, when = clean(figures[f"{name}_id"], 60), figures[f"{name}_time"]
    if when:
        case += f", {clean(when, 40)}"
    return f"case {figures[name]} ({case})"
