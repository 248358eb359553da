"""Owns the divergences between two cluster distributions, by name."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from coe_agents.checks import one_of, require
from coe_agents.errors import CoEError
from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray, FloatOrArray

Kernel = Callable[[FloatArray, FloatArray], FloatArray]


def kl_divergence(p: npt.ArrayLike, q: npt.ArrayLike) -> FloatOrArray:
    """Kullback-Leibler divergence, D(p || q) = sum_j p_j log(p_j / q_j), with 0 log(0 / q) = 0.

    Not symmetric. Equation 4 uses it with the ensemble mean as `q`, against which it is finite.

    Args:
        p: Shape `(..., n_clusters)`; rows sum to 1.
        q: Shape `(..., n_clusters)`; broadcast against `p` over leading dimensions.

    Returns:
        Nats, in [0, inf]; a float for two rows, an array otherwise. 0.0 where the rows are equal, inf where `q` is
        0 and `p` is not. There is no smoothing.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: An argument is empty, a row is not a distribution, or the shapes do not fit.

    >>> kl_divergence([0.5, 0.5], [1.0, 0.0]), round(kl_divergence([1.0, 0.0], [0.5, 0.5]), 4)
    (inf, 0.6931)
    """
    return _checks.plain(_kullback_leibler(*_pair(p, q)))


def jensen_shannon_divergence(p: npt.ArrayLike, q: npt.ArrayLike) -> FloatOrArray:
    """Jensen-Shannon divergence, (D(p || m) + D(q || m)) / 2 with m = (p + q) / 2; not its square root.

    Args:
        p: Shape `(..., n_clusters)`; rows sum to 1.
        q: Shape `(..., n_clusters)`; broadcast against `p` over leading dimensions.

    Returns:
        Nats, in [0, log 2]; a float for two rows, an array otherwise. 0.0 where the rows are equal, log 2 where
        they share no cluster.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: An argument is empty, a row is not a distribution, or the shapes do not fit.

    Symmetric, and finite where the Kullback-Leibler divergence is not:

        >>> round(jensen_shannon_divergence([0.5, 0.5], [1.0, 0.0]), 4)
        0.2158
        >>> round(jensen_shannon_divergence([1.0, 0.0], [0.5, 0.5]), 4)
        0.2158
    """
    return _checks.plain(_jensen_shannon(*_pair(p, q)))


def hellinger_distance(p: npt.ArrayLike, q: npt.ArrayLike) -> FloatOrArray:
    """Hellinger distance, sqrt(sum_j (sqrt p_j - sqrt q_j)^2 / 2).

    Args:
        p: Shape `(..., n_clusters)`; rows sum to 1.
        q: Shape `(..., n_clusters)`; broadcast against `p` over leading dimensions.

    Returns:
        In [0, 1], a distance without a unit; a float for two rows, an array otherwise. 0.0 where the rows are equal,
        1 where they share no cluster.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: An argument is empty, a row is not a distribution, or the shapes do not fit.

    >>> round(hellinger_distance([1.0, 0.0], [0.0, 1.0]), 4)
    1.0
    """
    return _checks.plain(_hellinger(*_pair(p, q)))


def wasserstein_distance(
    p: npt.ArrayLike, q: npt.ArrayLike, *, ground_metric: npt.ArrayLike | None = None
) -> FloatOrArray:
    """Wasserstein distance, the least cost sum_jk T_jk d_jk of a plan T that moves `p` into `q`.

    Clusters have no order: the distance between two of them is read from `ground_metric`, never from their index.

    Args:
        p: Shape `(..., n_clusters)`; rows sum to 1.
        q: Shape `(..., n_clusters)`; broadcast against `p` over leading dimensions.
        ground_metric: Shape `(n_clusters, n_clusters)`: the distance d between every two clusters, symmetric with a
            zero diagonal. The triangle inequality is not asked for; without it the result is a transport cost.
            None: 1 between any two clusters, which makes it the total variation sum_j |p_j - q_j| / 2.

    Returns:
        In [0, largest distance], in the unit of `ground_metric`; a float for two rows, an array otherwise.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: An argument is empty, a row is not a distribution, the shapes do not fit, or `ground_metric` is not
            such a matrix.
        CoEError: The linear program could not be solved.

    With a ground metric each pair of rows is a linear program, solved one by one. Near clusters cost less:

        >>> wasserstein_distance([1.0, 0.0], [0.0, 1.0])
        1.0
        >>> round(wasserstein_distance([1.0, 0.0], [0.0, 1.0], ground_metric=[[0.0, 0.1], [0.1, 0.0]]), 4)
        0.1
    """
    left, right = _pair(p, q)
    distance = kernel("wasserstein", ground_metric, n_clusters=left.shape[-1])
    return _checks.plain(distance(left, right))


def kernel(divergence: str, ground_metric: npt.ArrayLike | None, n_clusters: int) -> Kernel:
    """Returns a divergence of checked rows; a ground metric goes with "wasserstein" only."""
    if callable(divergence):
        raise TypeError(
            f'"divergence" must be one of {", ".join(_KERNELS)}; got a function. Functions of your own were removed: '
            "sum the weighted values of yours over the rows and their ensemble_mean"
        )
    one_of(divergence, '"divergence"', _KERNELS)
    if ground_metric is None:
        return _KERNELS[divergence]
    must = '"ground_metric" must be used with divergence "wasserstein"'
    require(divergence == "wasserstein", must, divergence, "Omit it")
    return partial(_cheapest_plans, ground=_checks.ground_metric(ground_metric, n_clusters))


def _pair(p: npt.ArrayLike, q: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    left = _checks.rows(p, "p", min_ndim=1)
    right = _checks.rows(q, "q", min_ndim=1)
    have_same_clusters = left.shape[-1] == right.shape[-1]
    if not have_same_clusters or _checks.common_shape(left.shape, right.shape) is None:
        raise ValueError(
            f'"p" and "q" must be over the same clusters; got shapes {left.shape} and {right.shape}. '
            "Cluster all responses together"
        )
    return left, right


def _kullback_leibler(p: FloatArray, q: FloatArray) -> FloatArray:
    """Sum of p log(p / q); by Gibbs' inequality only rounding goes below 0."""
    from scipy.special import rel_entr  # here, since importing it takes longer than this package

    total = rel_entr(p, q).sum(axis=-1)
    return np.asarray(np.maximum(total, 0.0))


def _jensen_shannon(p: FloatArray, q: FloatArray) -> FloatArray:
    """A quarter of the sum of 2p log(2p / (p + q)) + 2q log(2q / (p + q)); (p + q) / 2 could underflow."""
    from scipy.special import rel_entr

    both = p + q
    terms = rel_entr(2.0 * p, both) + rel_entr(2.0 * q, both)
    total = terms.sum(axis=-1) / 4.0
    return np.asarray(np.maximum(total, 0.0))


def _hellinger(p: FloatArray, q: FloatArray) -> FloatArray:
    differences = np.sqrt(p) - np.sqrt(q)
    squares = np.square(differences).sum(axis=-1)
    return np.asarray(np.sqrt(squares / 2.0))


def _total_variation(p: FloatArray, q: FloatArray) -> FloatArray:
    differences = np.abs(p - q).sum(axis=-1)
    return np.asarray(differences / 2.0)


def _cheapest_plans(p: FloatArray, q: FloatArray, *, ground: FloatArray) -> FloatArray:
    """Solves one pair of rows after the other."""
    p, q = np.broadcast_arrays(p, q)
    values = np.empty(p.shape[:-1])
    for index in np.ndindex(*values.shape):
        values[index] = _cheapest_plan(p[index], q[index], ground=ground)
    return values


def _cheapest_plan(p: FloatArray, q: FloatArray, *, ground: FloatArray) -> float:
    """Least sum of T d over plans T >= 0 with row sums p and column sums q, on the clusters that have mass."""
    from scipy.optimize import linprog

    sources = np.flatnonzero(p)
    targets = np.flatnonzero(q)
    costs = ground[np.ix_(sources, targets)]
    # the plan is a vector, row by row: each line of these adds up one row, or one column, of it
    row_sums = np.kron(np.eye(sources.size), np.ones(targets.size))
    column_sums = np.kron(np.ones(sources.size), np.eye(targets.size))
    solution = linprog(
        costs.ravel(),
        A_eq=np.vstack([row_sums, column_sums]),
        b_eq=np.concatenate([p[sources], q[targets]]),
    )
    if solution.status != 0:
        raise CoEError(
            f"the cheapest transport plan could not be computed: {solution.message}",
            hint='Scale "ground_metric" to [0, 1], or omit it',
        )
    return max(float(solution.fun), 0.0)


_KERNELS: dict[str, Kernel] = {
    "kl": _kullback_leibler,
    "js": _jensen_shannon,
    "hellinger": _hellinger,
    "wasserstein": _total_variation,
    "total_variation": _total_variation,
}
NAMES = tuple(_KERNELS)
