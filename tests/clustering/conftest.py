import pytest

from coe_agents.testing.doubles import TableEntailment


@pytest.fixture
def same_start() -> TableEntailment:
    """Entailment, in both directions, where the last words start alike; else contradiction."""

    def verdict(*texts):
        return (
            "entailment" if len({text.split()[-1][0] for text in texts}) == 1 else "contradiction"
        )

    return TableEntailment(verdict)
