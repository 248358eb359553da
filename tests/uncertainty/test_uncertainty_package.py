import subprocess
import sys

from coe_agents import uncertainty

HEAVY = ("torch", "transformers", "langchain_core", "langgraph", "scipy.optimize", "scipy.special")


def test_a_fresh_interpreter_loads_nothing_heavy():
    program = f"import sys, coe_agents.uncertainty; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.split() == []


def test_exported_names():
    assert uncertainty.__all__ == sorted(uncertainty.__all__)
    assert set(uncertainty.__all__) == {
        "entropy",
        "semantic_entropy",
        "cluster_distributions",
        "collaborative_entropy",
        "coordinate",
        "regime",
        "kl_divergence",
        "jensen_shannon_divergence",
        "hellinger_distance",
        "wasserstein_distance",
        "CollaborativeEntropy",
        "Coordination",
        "coe_interval",
    }
    assert all(callable(getattr(uncertainty, name)) for name in uncertainty.__all__)
