"""Owns learning trust in agents, and whose support counts, from judged questions; NumPy applies it."""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from coe_agents.checks import require
from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray
from coe_agents.evaluation.scoring.scores import hash_of
from coe_agents.policy import Measurement
from coe_agents.policy.support import LearnedSupport, support_features
from coe_agents.text import quantity

_N_FOLDS = 5
_TRUST_PENALTY = 100.0
"""The ridge penalty on the agents' deviations from the common slope: a prior standard deviation of 0.1.

Chosen by cross-validated accuracy on the development half of 30 groups (`benchmarks/real_groups.py` names them)."""
_SUPPORT_PENALTY = 1.0
"""The ridge penalty on all slopes. Between 0.1 and 10 the AUROC on real tool calls differs by less than 0.002."""


def fit_trust(
    distributions: Sequence[FloatArray],
    correct: Sequence[FloatArray],
    *,
    penalty: float = _TRUST_PENALTY,
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
    # here, since importing it takes as long as scoring a thousand questions
    from scipy.optimize import minimize
    from scipy.special import softmax, xlogy

    n_agents = len(distributions[0])
    informative = []
    for rows, right in zip(distributions, correct, strict=True):
        if right.size > 1 and right.sum() > 0.0:
            informative.append((rows, right / right.sum()))
    if not informative:
        return np.full(n_agents, 1.0 / n_agents)

    # questions with fewer clusters are filled up with clusters of chance exp(-inf) = 0
    n_questions = len(informative)
    most_clusters = max(target.size for _, target in informative)
    shares = np.zeros((n_questions, most_clusters, n_agents))
    targets = np.zeros((n_questions, most_clusters))
    absent = np.full((n_questions, most_clusters), -np.inf)
    for i, (rows, target) in enumerate(informative):
        n_clusters = target.size
        shares[i, :n_clusters] = rows.T
        targets[i, :n_clusters] = target
        absent[i, :n_clusters] = 0.0

    def loss(slopes: FloatArray) -> tuple[float, FloatArray]:
        """Returns the penalised negative log-likelihood, and its gradient."""
        chances = softmax(shares @ slopes + absent, axis=1)
        # of clusters that are not right, nothing is added
        log_likelihood = xlogy(targets, np.maximum(chances, 1e-300)).sum()
        gradient = np.einsum("qc,qca->a", chances - targets, shares)

        deviations = slopes - slopes.mean()
        ridge = penalty / 2.0 * deviations @ deviations
        return ridge - log_likelihood, gradient + penalty * deviations

    fit = minimize(
        loss,
        np.full(n_agents, 2.0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * n_agents,
        options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9},
    )
    slopes = fit.x
    if not slopes.sum() > 1e-6:
        return np.full(n_agents, 1.0 / n_agents)
    rounded = np.round(slopes / slopes.sum(), 4)
    return np.asarray(rounded / rounded.sum())


def _require_both(wrong: FloatArray, agents: Collection[str]) -> None:
    n_wrong = (wrong > 0.0).sum()
    n_right = (wrong < 1.0).sum()
    if n_wrong < 2 or n_right < 2:
        raise ValueError(
            "the questions must have at least two right and two wrong answers by all "
            f"{quantity(len(agents), 'agent')}; "
            f"got {quantity(wrong.size, 'such question')}, {wrong.sum():g} of them wrong. Add questions"
        )


def fit_ridge(
    features: FloatArray, wrong: FloatArray, *, penalty: float
) -> tuple[FloatArray, float]:
    """Slopes and intercept of a logistic regression on shares of wrong, `wrong`, in [0, 1].

    `penalty` / 2 times the squared slopes is added to the negative log-likelihood.
    """
    try:
        import sklearn
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError(
            'learning needs scikit-learn; pip install "coe-agents[evaluation]"'
        ) from error
    # each row enters as wrong and as right, with the share of either as its weight
    rows = np.vstack([features, features])
    targets = np.repeat([1, 0], wrong.size)
    weights = np.concatenate([wrong, 1.0 - wrong])
    has_weight = weights > 0.0
    model = LogisticRegression(C=1.0 / penalty, solver="newton-cholesky", tol=1e-9, max_iter=200)
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        model.fit(rows[has_weight], targets[has_weight], weights[has_weight])
    return model.coef_[0], float(model.intercept_[0])


def to_folds(identifiers: Sequence[str], wrong: npt.ArrayLike) -> IntArray:
    """Deals questions into five folds with equal shares of wrong answers, by a hash of their ids.

    With unequal shares a fold would be scored by a gate that has seen fewer errors the more there are in it. The order
    of the questions and the names of the agents change nothing. Folds are 0..4.
    """
    shares = np.asarray(wrong, dtype=np.float64)
    hashes = [hash_of(identifier) for identifier in identifiers]
    n_questions = len(hashes)

    def rank(place: int) -> tuple[float, bytes]:
        return shares[place], hashes[place]

    order = sorted(range(n_questions), key=rank)
    fold = np.empty(n_questions, dtype=np.int64)
    fold[order] = np.arange(n_questions) % _N_FOLDS
    return fold


def fit_support(
    measurements: Sequence[Measurement], correct: npt.ArrayLike, *, proposer: str
) -> LearnedSupport:
    """Learns a logistic regression of "the first response of `proposer` is wrong" from what the others propose.

    Models that are shown tools tend to call one, also where none is right, and plain support counts that in full. This
    regression sees for each other agent whether it proposes the same and whether it calls nothing, and learns who of
    them is worth following. `correct`, shape `(n,)`, is the share of each proposal that is right; measurements that
    lack an agent are left out. It needs another agent, and two right and two wrong proposals to questions that have all
    agents.
    """
    agents = set[str]()
    for measurement in measurements:
        agents.update(measurement.agents)
    others = tuple(sorted(agents - {proposer}))
    must = f'"measurements" must have "{proposer}" and another agent'
    has_others = bool(others) and proposer in agents
    require(has_others, must, ", ".join(sorted(agents)), "Add their samples")

    features = []
    shares_wrong = []
    shares_right = np.asarray(correct, dtype=np.float64).tolist()
    for measurement, right in zip(measurements, shares_right, strict=True):
        if agents <= measurement.agents.keys():
            features.append(support_features(measurement, proposer, others))
            shares_wrong.append(1.0 - right)
    wrong = np.array(shares_wrong)
    _require_both(wrong, agents)

    slopes, intercept = fit_ridge(np.array(features), wrong, penalty=_SUPPORT_PENALTY)
    # in the order of `support_features`
    n_others = len(others)
    same = slopes[:n_others]
    nothing = slopes[n_others : 2 * n_others]
    [calls_nothing] = slopes[2 * n_others :]
    return LearnedSupport(
        proposer,
        others,
        same=tuple(same.tolist()),
        nothing=tuple(nothing.tolist()),
        calls_nothing=float(calls_nothing),
        intercept=intercept,
    )
