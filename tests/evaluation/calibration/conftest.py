import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples, judge_samples
from tests.evaluation.invented import write


@pytest.fixture
def rows(tmp_path):
    def of(samples):
        with Samples([write(tmp_path / "s.jsonl", samples)]) as questions:
            return judge_samples(questions, clusterer=NormalizedMatch(), every_cluster=True)

    return of
