"""Owns the command `drift`: whether a calibrated policy still fits, on new samples or on answers as they come."""

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

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
from coe_agents.cli.terminal import (
    INTERRUPTED,
    clean,
    clean_up_after_interrupt,
    print_json,
    print_lines,
)
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.cli.options import Criteria
    from coe_agents.evaluation.calibration.drift import RiskState

DRIFT_EPILOG = (
    f"Exit status: {Exit.ANSWERED} the calibration still holds, {Exit.ABSTAINED} it does not; "
    "130 after Ctrl-C."
)
_VERDICTS = {"kept": "kept", "broken": "broken", "open": "neither confirmed nor refuted"}
_PAUSE = 0.5
"""Seconds between two looks at a file that has not grown."""


@expand_options
def drift(
    policy: Annotated[Path, typer.Argument(help="The file that calibrate wrote.")],
    scoring: ScoringOptions,
    samples: OptionalSamplesArgument = None,
    estimator: PolicyEstimatorOption = None,
    follow: Annotated[
        Path | None,
        typer.Option(
            help="A file of labelled answers, one JSON object a line, to which they are appended. It is read until "
            "it breaks the stated risk; stop with Ctrl-C."
        ),
    ] = None,
    min_seen: Annotated[
        float,
        typer.Option(help="With --follow: the lowest audit rate; 1 if every answer is judged."),
    ] = 1.0,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="With --follow: stop at the end of the file instead of waiting."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check on new samples, or on labelled answers as they come, whether a calibrated policy still fits."""
    from coe_agents.evaluation import check_drift
    from coe_agents.evaluation.scoring.correctness import CRITERIA

    if follow is not None:
        if samples:
            raise typer.BadParameter(
                "it reads no samples. Omit them, or omit --follow", param_hint="--follow"
            )
        _follow(policy, estimator, follow, min_seen=min_seen, until_end=until_end, as_json=as_json)
    for name, is_given in (("--until-end", until_end), ("--min-seen", min_seen != 1.0)):
        if is_given:
            raise typer.BadParameter(
                "it needs --follow. Add --follow FILE, or omit it", param_hint=name
            )
    if not samples:
        raise typer.BadParameter(
            "files of saved responses are needed, or --follow FILE", param_hint="'samples'"
        )
    calibrated = load_policy(policy, estimator)
    if scoring.correctness is None and (usual := calibrated.calibration.correctness) in CRITERIA:
        scoring = replace(scoring, correctness=cast("Criteria", usual))
    setting, judging = create_setting(scoring, samples)
    rows, n_silent = judge_saved(
        samples,
        setting,
        every_cluster=calibrated.calibration.chooses_answer,
        proposer=calibrated.calibration.proposer,
        weights=calibrated.calibration.weights,
        score=calibrated.calibration.score,
        estimator=calibrated.calibration.estimator,
    )
    clusterer = type(setting.clusterer).__name__
    found = check_drift(calibrated, rows, clusterer=clusterer, correctness=setting.criterion.name)
    if as_json:
        print_json({**asdict(found), "holds": found.holds, "judged": judging.to_json()})
    else:
        moved = "have changed" if found.scores_changed else "show no change"
        print_lines(
            f"{quantity(found.n_questions, 'question')}: the uncertainties {moved} "
            f"(Kolmogorov-Smirnov {found.ks_statistic:.3f}, p = {found.p_value:.3g}); coverage {found.coverage:.1%}"
        )
        if found.risk_interval is not None:
            low, high = found.risk_interval
            judged = quantity(found.n_judged, "answer is", "answers are")
            print_lines(
                f"risk: {found.n_wrong} of {judged} wrong, {low:.1%} to {high:.1%} by one-sided "
                f"95 % bounds; the stated {calibrated.calibration.risk:.1%} is {_VERDICTS[found.risk]}"
            )
        is_same = found.ks_statistic == 0.0 and found.n_questions == len(
            calibrated.calibration.uncertainties
        )
        own = "all uncertainties are those of the calibration: on its own questions this shows nothing, sample new ones"
        lacking = quantity(found.n_unmeasurable, "question lacks", "questions lack")
        for count, text in (
            (is_same, own),
            (found.n_ties, f"questions with a tied lead, which are never answered: {found.n_ties}"),
            (n_silent, f"questions without a response to judge: {n_silent}"),
            (found.n_unmeasurable, f"{lacking} an agent that the learned support needs"),
        ):
            if count:
                print_lines(text)
        for mismatch in found.mismatches:
            print_lines(f"mismatch: {mismatch}")
        print_lines(judging.note())
    raise typer.Exit(Exit.ANSWERED if found.holds else Exit.ABSTAINED)


def _follow(
    policy: Path,
    estimator: str | None,
    path: Path,
    *,
    min_seen: float,
    until_end: bool,
    as_json: bool,
) -> NoReturn:
    """Reads labelled cases until they break the risk of a policy, and raises `typer.Exit` with the command's status."""
    from coe_agents.evaluation import RiskMonitor
    from coe_agents.evaluation.calibration.drift import follow_cases

    risk = load_policy(policy, estimator).calibration.risk
    try:
        monitor = RiskMonitor(risk, min_seen=min_seen)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    cases = list[tuple[str, str | None]]()  # the id of each, and its time where known
    is_following = False

    def wait() -> bool:
        nonlocal is_following
        if until_end:
            return False
        if not is_following:  # all that was there has been read
            is_following = True
            print_lines(f"Following {clean(str(path))}; Ctrl-C ends it.", to_stderr=True)
        time.sleep(_PAUSE)
        return True

    clean_up_after_interrupt()
    interrupted = False
    try:
        for case in follow_cases(path, wait=wait):
            cases.append((case.id, case.time))
            try:
                state = monitor.update(1.0 - case.correct, seen_probability=case.seen_probability)
            except ValueError as error:
                message = f"the case {clean(case.id, 50)!r}: {error}"
                raise typer.BadParameter(message, param_hint="--min-seen") from error
            if state.broken:
                break
    except KeyboardInterrupt:
        interrupted = True
    state = monitor.state
    found = asdict(state)
    for name in ("since", "broken_at"):
        known = (None, None) if found[name] is None else cases[found[name] - 1]
        found[f"{name}_id"], found[f"{name}_time"] = known
    if as_json:
        print_json({"risk": risk, **found, "broken": state.broken, "interrupted": interrupted})
    else:
        print_lines(_on_risk(risk, state, found))
        if interrupted:
            print_lines(
                "Interrupted. Rerun the same command: it reads the file from its beginning.",
                to_stderr=True,
            )
    raise typer.Exit(
        INTERRUPTED if interrupted else Exit.ABSTAINED if state.broken else Exit.ANSWERED
    )


def _on_risk(risk: float, state: "RiskState", found: Mapping[str, Any]) -> str:
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
    count = quantity(found["n_since"], "labelled answer was", "labelled answers were")
    return (
        f"The stated risk of {risk:.3g} is broken: answers are wrong more often.\n"
        f"It probably began near {_place(found, 'since')}: since then {found['risk_since']:.1%} of {count} wrong, up "
        f"to {_place(found, 'broken_at')}.\n"
        f"The evidence is {state.evidence:.3g}, at or above {limit}. {promise}\n"
        "Answer less until you have calibrated again."
    )


def _place(found: Mapping[str, Any], name: str) -> str:
    when = found[f"{name}_time"]
    said = clean(found[f"{name}_id"], 60) + (f", {clean(when, 40)}" if when else "")
    return f"case {found[name]} ({said})"
