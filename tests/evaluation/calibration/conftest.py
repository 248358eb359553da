import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.calibration.calibrate import judge_samples
from tests.evaluation.invented import group, write


@pytest.fixture(scope="session")
def rows(tmp_path_factory):
    def of(samples, *, clusterer=None, **options):
        with Samples([write(tmp_path_factory.mktemp("rows") / "s.jsonl", samples)]) as questions:
            return judge_samples(
                questions, clusterer=clusterer or NormalizedMatch(), every_cluster=True, **options
            )

    return of


@pytest.fixture(scope="session")
def known_rows(rows):
    return tuple(rows(group(400)))
