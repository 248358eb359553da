import io
import json

from rich.console import Console

from coe_agents import RegimePolicy, create_coe_graph
from coe_agents.cli.display.live import View, describe, watch
from coe_agents.clustering import NormalizedMatch
from tests.cli.command import run
from tests.doubles import ScriptedAgent


def graph(*agents, **options):
    policy = RegimePolicy(0.5, 0.3, actions={"conflict": "another_round"})
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, retries=0, **options).compile()


def screen(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, legacy_windows=False)


def shown(view):
    console = screen(terminal=False)
    console.print(view)
    return console.file.getvalue()


def sampled(agent, **fields):
    given = {"round": 0, "n_responses": 5, "seconds": 1.0, "error": None, **fields}
    return {"event": "agent_sampled", "agent": agent, **given}


def test_without_a_terminal_each_event_is_a_line():
    console = screen(terminal=False)
    result = watch(graph(ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Lyon", "Lyon"])), "Q?", console=console)
    assert result["decision"]["action"] == "abstain"
    lines = console.file.getvalue().splitlines()
    assert {"round 1: a …", "round 1: b …"} <= set(lines)
    assert any(line.startswith("round 1: b: 2 responses, ") for line in lines)
    assert lines[-3].startswith("round 1: 3 responses in 2 clusters ")
    assert lines[-2] == "round 1: CoE 0.693 = aleatoric 0.000 + epistemic 0.693 nats: conflict"
    assert lines[-1].startswith("round 1: abstain: conflict: ")
    assert "\x1b" not in console.file.getvalue()


def test_on_a_terminal_the_last_picture_holds_every_round():
    console = screen(terminal=True)
    agents = ScriptedAgent("a", ["Paris"], ["Lyon"]), ScriptedAgent("b", ["Lyon"])
    result = watch(graph(*agents, max_rounds=2), "Q?", console=console)
    assert result["decision"]["n_rounds"] == 2
    drawn = console.file.getvalue()
    assert "\x1b[?25l" in drawn  # the cursor is hidden while it is redrawn ...
    assert drawn.rstrip().endswith("\x1b[?25h")  # ... and shown again
    assert "another round" in drawn
    assert "round 2" in drawn


def test_an_agent_keeps_its_row_from_being_asked_to_being_done():
    view = View()
    view.add({"event": "agent_asked", "agent": "a", "round": 0})
    assert "a …" in shown(view)
    view.add(sampled("a"))
    assert shown(view).strip().replace("   ", " ") == "✓ a: 5 responses, 1.00 s"


def test_an_agent_named_like_a_step_has_a_row_of_its_own():
    view = View()
    view.add(sampled("clustered"))
    view.add({"event": "clustered", "round": 0, "n_clusters": 1, "sizes": [5]})
    assert len(shown(view).splitlines()) == 2


def test_a_failure_is_marked_and_cannot_steer_the_terminal():
    view = View()
    view.add(sampled("a", n_responses=0, error="OSError: \x1b[2J[bold]gone"))
    assert "✗" in shown(view)
    assert str(describe(sampled("a", error="OSError: \x1b[2J[bold]gone"))) == "a: failed, OSError: �[2J[bold]gone"


def test_a_ruling_says_who_decided():
    event = {"event": "ruled", "round": 0, "action": "answer", "decided_by": "the\x1b[2J judge"}
    assert str(describe(event)) == "answer, decided by the�[2J judge"


def test_all_agents_dead_is_nothing_to_measure():
    console = screen(terminal=False)
    watch(graph(*(ScriptedAgent(name, OSError("gone")) for name in "ab")), "Q?", console=console)
    assert "round 1: 0 responses in 0 clusters" in console.file.getvalue()
    assert "nothing to measure" in console.file.getvalue()


def test_the_command_leaves_standard_output_to_the_result():
    done = run("ask", "What is the capital of Japan?", "--json", "--watch")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["action"] == "answer"
    assert "round 1: 30 responses in 1 cluster " in done.stderr
    assert "round 1: answer: " in done.stderr
