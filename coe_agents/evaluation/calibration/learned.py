"""Owns learning trust, a gate and whose support counts, from judged questions; scikit-learn fits, NumPy applies."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.checks import require
from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray
from coe_agents.evaluation.scoring.scores import hash_of
from coe_agents.policy import Measurement, learned_gates
from coe_agents.text import quantity
from coe_agents.uncertainty.ties import shares_lead

_N_FOLDS = 5
_TRUST_PENALTY = 100.0
"""The ridge penalty on the agents' deviations from the common slope: a prior standard deviation of 0.1.

Chosen by cross-validated accuracy on the development half of 30 groups (`benchmarks/learned_gate.py` names eight)."""
_GATE_PENALTIES = (10.0, 100.0)
"""The ridge penalties that a gate tries on the agents' deviations of support."""
_CONFIDENCE_PENALTIES = (10.0, 33.0, 100.0)
"""Those that it tries on their confidences, which are standardised."""
_SUPPORT_PENALTY = 1.0
"""The ridge penalty on all slopes. Between 0.1 and 10 the AUROC on real tool calls differs by less than 0.002."""
_FREE = 1e-3
"""The penalty on the entropy's slope, which keeps it finite where right and wrong can be separated."""


def fit_trust(
    distributions: Sequence[FloatArray], correct: Sequence[FloatArray], *, penalty: float = _TRUST_PENALTY
) -> FloatArray:
    """Learns how far to trust each agent: the weights of the ensemble mean that chooses the answer.

    A conditional logistic regression (McFadden, 1974): of a question's clusters c, the right one is c with probability
    softmax_c(sum_i b_i p_i(c)), where agent i's slope b_i = common slope + deviation_i is at least 0, and
    penalty / 2 times the squared deviations is added to the negative log-likelihood. The weights are b / sum(b), to
    four decimals, so that rounding errors of the fit break no tie. Compared with one logistic regression per cluster,
    whose intercept also has to explain how hard a question is, it loses less where agents are equals.

    Args:
        distributions: For each question, shape `(n_agents, n_clusters)`: the same agents in the same order.
        correct: For each question, shape `(n_clusters,)`: the share of each cluster that is right, in [0, 1].
        penalty: The strength of the ridge penalty.

    Returns:
        Shape `(n_agents,)`, at least 0, summing to 1; all equal where no question has a right cluster beside another.

    >>> differing = [np.array([[1.0, 0.0], [0.0, 1.0]])]
    >>> fit_trust(differing * 200, [np.array([1.0, 0.0])] * 200)  # the first agent is right whenever they differ
    array([0.6042, 0.3958])
    """
    n_agents = len(distributions[0])
    from scipy.optimize import minimize  # here, since importing it takes as long as scoring a thousand questions
    from scipy.special import softmax

    informative = [
        (rows, right / right.sum())
        for rows, right in zip(distributions, correct, strict=True)
        if right.size > 1 and right.sum() > 0.0
    ]
    if not informative:
        return np.full(n_agents, 1.0 / n_agents)
    width = max(target.size for _, target in informative)
    shares = np.zeros((len(informative), width, n_agents))
    targets = np.zeros((len(informative), width))
    absent = np.full((len(informative), width), -np.inf)
    for i, (rows, target) in enumerate(informative):
        shares[i, : target.size], targets[i, : target.size], absent[i, : target.size] = rows.T, target, 0.0

    def loss(slopes: FloatArray) -> tuple[float, FloatArray]:
        chances = softmax(shares @ slopes + absent, axis=1)
        deviations = slopes - slopes.mean()
        log_chances = np.log(np.where(targets > 0, np.maximum(chances, 1e-300), 1.0))
        value = -(targets * log_chances).sum() + penalty / 2.0 * deviations @ deviations
        return value, np.einsum("qc,qca->a", chances - targets, shares) + penalty * deviations

    start = np.full(n_agents, 2.0)
    options = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    slopes = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n_agents, options=options).x
    if not slopes.sum() > 1e-6:
        return np.full(n_agents, 1.0 / n_agents)
    rounded = np.round(slopes / slopes.sum(), 4)
    return np.asarray(rounded / rounded.sum())


def fit_gate(
    measurements: Sequence[Measurement], verdicts: Sequence[Sequence[float | None]], *, trust: bool = True
) -> learned_gates.LearnedGate:
    """Learns trust in the agents, and from it a logistic regression of "the chosen answer is wrong".

    It reads log(1 + H_3), H_3 being the Renyi entropy of order 3 of the trust-weighted mean; as a block each agent's
    deviation of support for the chosen cluster from the agents' mean; and as another block the agents' confidences,
    standardised, with a column that says where an agent that mostly has one has none. A block's ridge penalty is chosen
    by inner cross-validation in five folds. A block enters only if it lowers the log-loss of the held-out questions by
    more than one standard error of the paired differences, so that equal agents have a gate of the entropy alone.
    The inner folds are dealt in the order of the questions, right and wrong ones apart; `calibrate` sorts them by a
    hash of their ids, so that no name and no order of files changes the gate. It needs two right and two wrong answers
    to questions that have all agents.

    Args:
        measurements: Of the calibration questions; those that lack one of the agents are left out.
        verdicts: For each, the share of each cluster that is right, in the order of `representatives`; a question with
            an unknown one (None) is left out.
        trust: Whether trust is learned; False: the agents have equal weights.
    """
    agents = tuple(sorted({name for measurement in measurements for name in measurement.agents}))
    known = [
        (measurement, learned_gates.distributions_of(measurement, agents), np.array(own, dtype=np.float64))
        for measurement, own in zip(measurements, verdicts, strict=True)
        if set(agents) <= measurement.agents.keys() and None not in own
    ]
    weights = (
        fit_trust([rows for _, rows, _ in known], [right for *_, right in known])
        if trust and known
        else np.full(len(agents), 1.0 / max(1, len(agents)))
    )
    wrong = np.array([1.0 - right[shares_lead(weights @ rows)].mean() for _, rows, right in known])
    _require_both(wrong, agents)
    entropies, supports = zip(*[learned_gates.gate_features(rows, weights) for _, rows, _ in known], strict=True)
    support = np.array(supports)
    both = zip(known, support, strict=True)
    values = [learned_gates.confidence_features(each, agents, own) for (each, *_), own in both]
    read = {name: _standardise(np.array([pair[i] for pair in values])) for i, name in enumerate(("stated", "token"))}
    centre, scale = np.mean(entropies), np.std(entropies) if np.std(entropies) > 1e-9 else 1.0
    (slopes, deviations, terms), intercept = _fit_blocks(
        [
            _Block(((np.array(entropies) - centre) / scale)[:, None], (_FREE,)),
            _Block(support - support.mean(axis=1, keepdims=True), _GATE_PENALTIES),
            _Block(np.hstack([each.columns for each in read.values()]), _CONFIDENCE_PENALTIES),
        ],
        wrong,
    )
    slope = float(slopes[0] / scale)
    by_confidence, offset = _to_terms(read, terms)
    by_agent, start = tuple(deviations.tolist()), float(intercept - slope * centre - offset)
    return learned_gates.LearnedGate(agents, tuple(weights.tolist()), slope, by_agent, start, **by_confidence)


def _require_both(wrong: FloatArray, agents: Collection[str]) -> None:
    if (wrong > 0.0).sum() < 2 or (wrong < 1.0).sum() < 2:
        raise ValueError(
            "the questions must have at least two right and two wrong answers by all "
            f"{quantity(len(agents), 'agent')}; "
            f"got {quantity(wrong.size, 'such question')}, {wrong.sum():g} of them wrong. Add questions"
        )


class _Block(NamedTuple):
    """Features that enter together or not at all, shape `(n_questions, n_features)`, and the ridge penalties to try."""

    columns: FloatArray
    penalties: tuple[float, ...]


class _Confidence(NamedTuple):
    """One kind of confidence of each agent, standardised, and 0 where missing; then whether it is missing.

    `columns` have shape `(n_questions, 2 n_agents)`, `centre` and `scale` one value for each agent.
    """

    columns: FloatArray
    centre: FloatArray
    scale: FloatArray


def _standardise(values: FloatArray) -> _Confidence:
    is_known = ~np.isnan(values)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    centre = np.where(is_known, values, 0.0).sum(axis=0) / n_known
    deviations = np.where(is_known, values - centre, 0.0)
    spread = np.sqrt((deviations**2).sum(axis=0) / n_known)
    scale = np.where(spread > 1e-9, spread, 1.0)
    return _Confidence(np.hstack([deviations / scale, ~is_known & is_known.any(axis=0)]), centre, scale)


def _to_terms(read: Mapping[str, _Confidence], coefficients: FloatArray) -> tuple[dict[str, tuple[float, ...]], float]:
    """Returns the terms of a `LearnedGate` from those of the standardised columns, and what to take off its intercept.

    A missing confidence is 0 after standardising, so that its term makes up for the others' offset.
    """
    terms: dict[str, tuple[float, ...]] = {}
    offset = 0.0
    if not coefficients.any():
        return terms, offset
    for (name, each), both in zip(read.items(), np.split(coefficients, len(read)), strict=True):
        slopes, missing = np.split(both, 2)
        slopes = slopes / each.scale
        offset += float(slopes @ each.centre)
        terms[name], terms[f"no_{name}"] = tuple(slopes.tolist()), tuple((missing + slopes * each.centre).tolist())
    return terms, offset


def _fit_blocks(blocks: Sequence[_Block], wrong: FloatArray) -> tuple[list[FloatArray], float]:
    """Returns the coefficients of each block, 0 where it does not prove its worth, and the intercept.

    The first one always enters.
    """
    fold = _deal(np.argsort(wrong, kind="stable"))
    used: dict[int, tuple[FloatArray, float]] = {0: (blocks[0].columns, blocks[0].penalties[0])}
    loss = _held_out_loss([*used.values()], wrong, fold)
    for place, (columns, penalties) in enumerate(blocks[1:], start=1):
        if not columns.any():
            continue
        tried = [_held_out_loss([*used.values(), (columns, penalty)], wrong, fold) for penalty in penalties]
        best = int(np.argmin([each.mean() for each in tried]))
        gains = loss - tried[best]
        if gains.mean() > gains.std(ddof=1) / np.sqrt(gains.size):
            used[place], loss = (columns, penalties[best]), tried[best]
    coefficients, intercept = _ridge([*used.values()], wrong)
    found = dict(zip(used, coefficients, strict=True))
    return [found.get(place, np.zeros(each.columns.shape[1])) for place, each in enumerate(blocks)], intercept


def _ridge(used: Sequence[tuple[FloatArray, float]], wrong: FloatArray) -> tuple[list[FloatArray], float]:
    """Returns the coefficients of each block of features, by its own penalty, and the intercept."""
    stretch = np.concatenate([np.full(columns.shape[1], penalty**-0.5) for columns, penalty in used])
    coefficients, intercept = fit_ridge(np.hstack([columns for columns, _ in used]) * stretch, wrong, penalty=1.0)
    ends = np.cumsum([columns.shape[1] for columns, _ in used])[:-1]
    return np.split(coefficients * stretch, ends), intercept


def fit_ridge(features: FloatArray, wrong: FloatArray, *, penalty: float) -> tuple[FloatArray, float]:
    """Slopes and intercept of a logistic regression on shares of wrong, `wrong`, in [0, 1].

    `penalty` / 2 times the squared slopes is added to the negative log-likelihood.
    """
    try:
        import sklearn
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError('learning needs scikit-learn; pip install "coe-agents[evaluation]"') from error
    rows, weights = np.vstack([features, features]), np.concatenate([wrong, 1.0 - wrong])
    targets, counts = np.repeat([1, 0], wrong.size), weights > 0.0
    model = LogisticRegression(C=1.0 / penalty, solver="newton-cholesky", tol=1e-9, max_iter=200)
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        model.fit(rows[counts], targets[counts], weights[counts])
    return model.coef_[0], float(model.intercept_[0])


def _held_out_loss(used: Sequence[tuple[FloatArray, float]], wrong: FloatArray, fold: IntArray) -> FloatArray:
    loss = np.empty(wrong.size)
    for number in range(_N_FOLDS):
        inside = fold == number
        outside = [(columns[~inside], penalty) for columns, penalty in used]
        coefficients, intercept = _ridge(outside, wrong[~inside])
        log_odds = intercept + sum(columns[inside] @ own for (columns, _), own in zip(used, coefficients, strict=True))
        loss[inside] = np.logaddexp(0.0, log_odds) - wrong[inside] * log_odds
    return loss


def to_folds(identifiers: Sequence[str], wrong: npt.ArrayLike, *, salt: str = "") -> IntArray:
    """Deals questions into five folds with equal shares of wrong answers, by a hash of their ids.

    With unequal shares a fold would be scored by a gate that has seen fewer errors the more there are in it. The order
    of the questions and the names of the agents change nothing; another `salt` deals other folds, which are 0..4.
    """
    shares = np.asarray(wrong, dtype=np.float64)
    hashes = [hash_of(salt + each) for each in identifiers]
    return _deal(np.array(sorted(range(len(hashes)), key=lambda i: (shares[i], hashes[i])), dtype=np.int64))


def _deal(order: IntArray) -> IntArray:
    fold = np.empty(order.size, dtype=np.int64)
    fold[order] = np.arange(order.size) % _N_FOLDS
    return fold


def fit_support(
    measurements: Sequence[Measurement], correct: npt.ArrayLike, *, proposer: str
) -> learned_gates.SupportGate:
    """Learns a logistic regression of "the first response of `proposer` is wrong" from what the others propose.

    Models that are shown tools tend to call one, also where none is right, and plain support counts that in full. This
    regression sees for each other agent whether it proposes the same and whether it calls nothing, and learns who of
    them is worth following. `correct`, shape `(n,)`, is the share of each proposal that is right; measurements that
    lack an agent are left out. It needs another agent, and two right and two wrong proposals to questions that have all
    agents.
    """
    agents = {name for measurement in measurements for name in measurement.agents}
    others = tuple(sorted(agents - {proposer}))
    must = f'"measurements" must have "{proposer}" and another agent'
    require(bool(others) and proposer in agents, must, ", ".join(sorted(agents)), "Add their samples")
    usable = [
        (learned_gates.support_features(measurement, proposer, others), 1.0 - right)
        for measurement, right in zip(measurements, np.asarray(correct, dtype=np.float64).tolist(), strict=True)
        if agents <= measurement.agents.keys()
    ]
    wrong = np.array([share for _, share in usable])
    _require_both(wrong, agents)
    slopes, intercept = fit_ridge(np.array([features for features, _ in usable]), wrong, penalty=_SUPPORT_PENALTY)
    same, nothing, (rival, tool, calls_nothing) = np.split(slopes, [len(others), 2 * len(others)])
    return learned_gates.SupportGate(
        proposer,
        others,
        same=tuple(same.tolist()),
        nothing=tuple(nothing.tolist()),
        rival=float(rival),
        tool=float(tool),
        calls_nothing=float(calls_nothing),
        intercept=intercept,
    )
