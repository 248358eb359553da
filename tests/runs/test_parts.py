"""What actors and the driver do, without a cluster; tests/distributed has one."""

import asyncio
import json
import zlib

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.decisions import DECISIONS
from coe_agents.evaluation.samples.store import Store
from coe_agents.runs import RunGroup, Timings, decide_all, load_items
from coe_agents.runs.parts import _Deciding, _to_ask
from coe_agents.runs.runner import keep, pending_items, units_of
from coe_agents.testing import ScriptedAgent
from tests.runs.test_items import CHAIN, written


def create():
    agents = [ScriptedAgent(name, ["Paris", "Paris", "Lyon"]) for name in "ab"]
    graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(1.0)).compile()
    return RunGroup(graph, at_once=2)


def test_a_part_of_any_size_gives_the_lines_of_a_run_in_one_process(tmp_path):
    chains = [{**CHAIN, "id": str(number)} for number in range(5)]
    items = load_items(written(tmp_path / "c.jsonl", *chains)).items
    with Store(tmp_path / "one", {}, units_of(items), name=DECISIONS) as store, Timings(tmp_path / "one") as timings:
        asyncio.run(decide_all(items, create(), store, timings))
    for size in (1, 2, 9):
        folder = tmp_path / f"parts of {size}"
        with (
            Store(folder, {}, units_of(items), name=DECISIONS) as store,
            Timings(folder) as timings,
            asyncio.Runner() as runner,
        ):
            work = _Deciding(create, runner=runner)
            for _, content in reversed(list(_to_ask(pending_items(items, store), size))):
                for row, seconds in json.loads(zlib.decompress(work(content))):
                    keep(store, timings, row, seconds)
            store.finish()
        assert (folder / DECISIONS).read_bytes() == (tmp_path / "one" / DECISIONS).read_bytes()
