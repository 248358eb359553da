"""Prints how often the bootstrap's 95 % interval holds the true CoE, by responses per agent.

Two agents over three clusters, their true distributions drawn anew (uniformly over the simplex) for each of 400 cases.
"""

import numpy as np

from coe_agents.uncertainty import coe_interval, collaborative_entropy

CASES, AGENTS, CLUSTERS = 400, 2, 3


def main() -> None:
    rng = np.random.default_rng(0)
    for n_responses in (5, 10, 20, 50):
        held = 0
        for case in range(CASES):
            truth = rng.dirichlet(np.ones(CLUSTERS), size=AGENTS)
            labels = np.concatenate([rng.choice(CLUSTERS, size=n_responses, p=row) for row in truth])
            agents = np.repeat(np.arange(AGENTS), n_responses)
            low, high = coe_interval(labels, agents, n_resamples=500, seed=case).total
            held += low <= collaborative_entropy(truth).total <= high
        print(f"{n_responses:3d} responses per agent: {held / CASES:.0%}")


if __name__ == "__main__":
    main()
