import pytest

from coe_agents.testing import TableEntailment


@pytest.fixture
def same_start() -> TableEntailment:
    """Entailment, in both directions, where the last words start alike; else contradiction."""
    return TableEntailment(
        lambda premise, hypothesis: (
            "entailment" if premise.split()[-1][0] == hypothesis.split()[-1][0] else "contradiction"
        )
    )
