"""Owns the solver "bayesian" of Algorithm 1, on the package `bayesian-optimization`."""

import warnings

import numpy as np
import numpy.typing as npt

from coe_agents.errors import ConfigurationError
from coe_agents.uncertainty.solvers import TRUST_RADIUS, Objective, within_trust_region

FloatArray = npt.NDArray[np.float64]
_N_INITIAL, _N_GUIDED = 4, 4
"""Random points per row, besides the row as it is; and those that the Gaussian process chooses, at most."""


def bayesian_step(distributions: FloatArray, *, seed: int = 0) -> FloatArray:
    """Lowers each agent's semantic entropy by Bayesian optimisation of its logits inside a trust region.

    As `genetic_step`: the logits of the clusters with mass, relative to the leading one's, may move by at most 2 in a
    step; each row has the same seed, so equal rows stay equal and results repeat; SE never rises. Each guided point
    fits a Gaussian process, so this is the slowest solver by far.
    """
    try:
        from bayes_opt import BayesianOptimization
    except ImportError as error:
        raise ConfigurationError(
            f'solver "bayesian" needs the package "bayesian-optimization": {error}',
            hint='Install it with: pip install "coe-agents[bayesian]"',
        ) from error

    def minimise(objective: Objective, n_dimensions: int) -> FloatArray:
        names = [f"logit_{index}" for index in range(n_dimensions)]

        def certainty(**offsets: float) -> float:
            return -float(objective(np.array([[offsets[name]] for name in names]))[0])

        bounds = dict.fromkeys(names, (-TRUST_RADIUS, TRUST_RADIUS))
        optimiser = BayesianOptimization(certainty, bounds, random_state=seed, verbose=0)
        optimiser.probe(dict.fromkeys(names, 0.0))
        with warnings.catch_warnings():
            # a Gaussian process that fits badly only makes the guess of the next point worse
            warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
            # the default restarts are for objectives that cost more than the Gaussian process; this one is cheap
            optimiser.set_gp_params(n_restarts_optimizer=0)
            optimiser.maximize(init_points=_N_INITIAL, n_iter=0)
            for _ in range(_N_GUIDED):
                n_known = len(optimiser.space)
                optimiser.probe(optimiser.suggest(), lazy=False)
                if len(optimiser.space) == n_known:
                    break  # it suggests a known point: it expects no better one
        best = optimiser.max
        return np.array([best["params"][name] for name in names]) if best else np.zeros(n_dimensions)

    return within_trust_region(distributions, minimise)
