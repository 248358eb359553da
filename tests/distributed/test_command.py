import pytest

from coe_agents.config.schema import load_config
from coe_agents.distributed.command import most_actors, share_limits
from tests.cli.test_sample import AGENT, config


@pytest.mark.parametrize("n_actors", [1, 2, 3, 5, 6])
def test_the_shares_of_all_actors_fit_into_what_an_endpoint_allows(tmp_path, n_actors):
    agents = [
        AGENT.format(name=f"a{n}", url="http://127.0.0.1:1/v1", more=f"max_concurrency = {n}")
        for n in (6, 7)
    ]
    settings = load_config(config(tmp_path, *agents))
    share = share_limits(settings, n_actors)
    assert most_actors(settings, 8) == 6
    assert most_actors(settings, 3) == 3
    for whole, part in zip(settings.agents, share.agents, strict=True):
        assert part.max_concurrency >= 1
        assert n_actors * part.max_concurrency <= whole.max_concurrency
    assert [agent.max_concurrency for agent in settings.agents] == [6, 7]
    assert most_actors(None, 8) is None
