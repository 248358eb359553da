import pytest

from coe_agents.evaluation import Samples
from tests.evaluation.invented import row, write


@pytest.fixture
def asked(tmp_path):
    """Makes questions of {id: {agent: "answer answer ..."}}; "right" is right, and every field is a sample's."""

    def of(said, **fields):
        rows = [
            row(identifier, agent, index, text, question=f"{identifier}?", references=["right"]) | fields
            for identifier, agents in said.items()
            for agent, texts in agents.items()
            for index, text in enumerate(texts.split())
        ]
        with Samples([write(tmp_path / "s.jsonl", rows)]) as samples:
            return list(samples)

    return of
