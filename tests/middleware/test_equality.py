"""Two calls are one to a council only if the tool would receive the same."""

import json
import sys
from enum import Enum
from typing import Annotated, Literal

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field, create_model, field_validator

from coe_agents import ModelAgent, SupportPolicy
from coe_agents.actions import ActionMatch, Meaning, Text
from coe_agents.clustering import NormalizedMatch
from coe_agents.middleware.deliberation import Deliberation, TurnProposals
from coe_agents.middleware.parsing import parsers_of
from coe_agents.testing import ScriptedAgent, create_response
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import THREAD
from tests.middleware.calls import PAY, replies, says
from tests.middleware.council import council_agent, members

DONE = AIMessage("Done.")


class Note(BaseModel):
    text: str
    dry_run: bool = True


class Wipe(BaseModel):
    text: str
    path: str
    dry_run: bool = False


class Mail(BaseModel):
    to: str
    dry_run: bool = True


class Sms(BaseModel):
    to: str
    number: int | None = None
    dry_run: bool = False


class Unit(Enum):
    MILLI = "mg"
    MEGA = "Mg"


class Dose(BaseModel):
    unit: Literal["mg", "Mg"] = "mg"
    then: "Dose | None" = None


class Cents(BaseModel):
    amount: int

    @field_validator("amount", mode="before")
    @classmethod
    def in_cents(cls, value):
        return value if isinstance(value, int) else round(float(value) * 100)


class Ran:
    """A tool with one argument `x` and what it received."""

    def __init__(self, kind, *default):
        self.received = []

        def act(x):
            self.received.append(x)
            return "ran"

        arguments = (
            kind
            if isinstance(kind, dict)
            else create_model("act", x=(kind, default[0] if default else ...))
        )
        self.tools = [
            StructuredTool.from_function(
                act, name="act", description="Acts.", args_schema=arguments
            )
        ]


def runs(kind, driver, *others, default=(), agents=None, **options):
    """Returns what the tool received, with a driver and members that propose these values of `x`."""
    ran = Ran(kind, *default)
    scripts = [[[{"name": "act", "args": args}], "Done."] for args in others]
    proposing = agents or members(*scripts)
    said = says({"name": "act", "args": driver, "id": "c1"})
    agent = council_agent(proposing, ran, said, DONE, **options)
    state = agent.invoke(PAY, THREAD)
    return ran.received, state


def xs(*values):
    return [{"x": value} for value in values]


@pytest.mark.parametrize(
    ("kind", "driver", "others"),
    [
        (Note | Wipe, {"text": "all", "path": "/"}, {"text": "all", "path": "/", "dry_run": True}),
        (Mail | Sms, {"to": "Ann", "number": 5}, {"to": "Ann", "number": 5, "dry_run": True}),
        (set[int] | list[str], ["a", "a"], ["a"]),
        (
            Annotated[Mail | Sms, Field(union_mode="left_to_right")],
            {"to": "Ann", "dry_run": False},
            {"to": "Ann"},
        ),
        (str, "DELETE FROM t -- old\nWHERE id = 1", "DELETE FROM t -- old WHERE id = 1"),
        (float, 4.9e-10, 0),
        (int | float, 1, 1.0),
        (list[str], ["a", "b"], ["b", "a"]),
        (Cents, {"amount": "5"}, {"amount": 5}),
    ],
)
def test_what_the_tool_receives_otherwise_is_another_action(kind, driver, others):
    assert runs(kind, *xs(driver, others, others))[0] == []
    assert len(runs(kind, *xs(others, others, others))[0]) == 1


UNITS = {"enum": ["mg", "Mg"]}
THEN = {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}
NODE = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"unit": UNITS, "then": THEN}}},
}


LOOP = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"on": {"default": True}, "then": {"$ref": "#/$defs/node"}},
        }
    },
}


@pytest.mark.parametrize(
    "clusterer", [None, ActionMatch(compare={"x": Meaning(NormalizedMatch())})]
)
@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (Unit, lambda unit: unit),
        (Literal["mg", "Mg"], lambda unit: unit),
        (Dose, lambda unit: {"unit": unit}),
        (Dose, lambda unit: {"then": {"then": {"unit": unit}}}),
        (NODE, lambda unit: {"then": {"unit": unit}}),
        ({"type": "object", "properties": {"x": UNITS}}, lambda unit: unit),
    ],
)
def test_enums_with_a_clusterer_of_ones_own(kind, of, clusterer):
    received, _ = runs(kind, *xs(of("Mg"), of("mg"), of("mg")), clusterer=clusterer)
    assert received == []
    received, _ = runs(kind, *xs(of("mg"), of("mg"), of("mg")), clusterer=clusterer)
    assert len(received) == 1


@pytest.mark.parametrize(
    ("kind", "driver", "others"),
    [
        (float, 10, "10"),
        (set[int], [1, 2, 1], [2, 1]),
        (Cents, {"amount": "5"}, {"amount": 500}),
        (Dose, {}, {"unit": "mg", "then": None}),
        (
            {"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "number"}}},
            1,
            1.0,
        ),
        ({"type": "object", "allOf": [{"properties": {"x": {"type": "integer"}}}]}, 1, 1),
        (LOOP, {"then": {"then": {}}}, {"on": True, "then": {"on": True, "then": {"on": True}}}),
    ],
)
def test_what_the_tool_receives_alike_is_one_action(kind, driver, others):
    received, _ = runs(kind, *xs(driver, others, others))
    assert len(received) == 1


def test_a_default_is_filled_in_and_one_that_a_factory_makes_is_not_given():
    received, _ = runs(str, {}, *xs("EUR", "EUR"), default=["EUR"])
    assert received == ["EUR"]

    made = [Field(default_factory=list)]
    received, _ = runs(list[int], {}, {}, {}, default=made)
    assert received == [[]]
    received, _ = runs(list[int], {}, *xs([], []), default=made)
    assert received == []


def test_models_that_are_members_parse_by_the_tool_not_by_its_schema():
    calls = [{"name": "act", "args": {"x": {"text": "all"}}, "id": "m1"}]
    said = AIMessage("", tool_calls=calls)
    agents = [ModelAgent(name, ScriptedDriver(script=[said, DONE]), n_samples=1) for name in "ab"]
    received, state = runs(Note | Wipe, *xs({"text": "all"}), agents=agents)
    assert [type(one).__name__ for one in received] == ["Note"]
    assert state["council"]["failed_agents"] == {}


def test_a_validator_that_raises_anything_fails_the_proposal_and_none_changes_what_was_proposed():
    class Broken(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def check(cls, text):
            raise KeyError("secret") if text == "no" else RuntimeError

    three = xs({"text": "no"}, {"text": "no"}, {"text": "no"})
    received, state = runs(Broken, *three, max_blocked=1)
    assert received == []
    assert set(state["council"]["failed_agents"]) == {"member0", "member1"}

    class Popping(BaseModel):
        text: str = ""

        @field_validator("text", mode="before")
        @classmethod
        def check(cls, text):
            return text.pop("text")

    nested = {"text": {"text": "a"}}
    received, _ = runs(Popping, *xs(nested, nested, nested))
    assert [one.text for one in received] == ["a"]


def test_what_is_injected_is_neither_asked_for_nor_compared():
    received = []

    @tool
    def act(x: float, state: Annotated[dict, InjectedState]) -> str:
        """Acts."""
        received.append((x, bool(state["messages"])))
        return "ran"

    ran = Ran(int)
    ran.tools = [act]
    for own, n_runs in (({"x": 1}, 1), ({"x": 1, "state": {"messages": []}}, 1)):
        agents = members(*[[[{"name": "act", "args": own}], "Done."]] * 2)
        council_agent(agents, ran, says({"name": "act", "args": own, "id": "c1"}), DONE).invoke(
            PAY, THREAD
        )
        assert received == [(1.0, True)] * n_runs


@pytest.mark.wording
def test_a_block_names_the_argument_and_the_decision_the_rule_that_would_loosen_a_text():
    for kind, driver, other, is_text in (
        (str, "Hi", "hi SECRET", True),
        (int, 1, 2, False),
        (Unit, "mg", "Mg", False),
    ):
        why = 'the models do not agree on the argument "x": '
        _, state = runs(kind, *xs(driver, other, other))
        (told,) = replies(state)
        assert told.text.startswith(f"act was not run: {why}")
        _, ended = runs(kind, *xs(driver, other, other), max_blocked=1)
        final = ended["messages"][-1].text
        assert why in final
        rule = 'ActionMatch(compare={"act.x": Text()})'
        assert (rule in ended["council"]["reason"]) is is_text
        for read in (told.text, final):
            assert not any(word in read for word in ("ActionMatch", "SECRET", "Mg"))


def test_a_rule_may_loosen_a_text():
    loose = ActionMatch(compare={"act.x": Text()})
    received, _ = runs(str, *xs("Hi.", "hi", "HI"), clusterer=loose)
    assert received == ["Hi."]


def test_true_is_not_1_when_a_members_message_goes_on():
    schema = {"type": "object", "properties": {"x": {}}}
    ran = Ran(schema)

    class Lying(ModelAgent):
        def sample(self, request, config=None):
            reply = super().sample(request, config)
            row = reply["responses"][0]
            if row["calls"]:
                of_one = {"name": "act", "args": {"x": 1}}
                reply["responses"] = [{**row, "calls": [of_one]}]
            return reply

    calls = [{"name": "act", "args": {"x": True}, "id": "m1"}]
    said = AIMessage("", tool_calls=calls)
    agents = [Lying(name, ScriptedDriver(script=[said, DONE]), n_samples=1) for name in "ab"]
    driver = says({"name": "act", "args": {"x": 7}, "id": "c1"})
    agent = council_agent(agents, ran, driver, DONE, mode="choose")
    agent.invoke(PAY, THREAD)
    assert json.dumps(ran.received) == "[1]"


def count_calls(work):
    """Returns how many functions some work calls."""
    n_calls = 0

    def count(frame, event, argument):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n_calls


@pytest.mark.parametrize("is_parsed", [True, False])
@pytest.mark.parametrize("step", [0, 1])
def test_the_work_grows_with_the_number_of_arguments(is_parsed, step):
    def rule(n):
        fields = {f"a{place}": (int, ...) for place in range(n)}
        model = create_model("act", **fields)
        act = StructuredTool.from_function(print, name="act", description="A.", args_schema=model)
        calls = [{"name": "act", "args": dict.fromkeys(fields, own * step)} for own in range(4)]
        of_driver, *of_member = calls
        rows = []
        for place, own in enumerate(of_member):
            rows.append(create_response("m", "", index=place, calls=[own]))
        proposals = TurnProposals(
            driver=says({**of_driver, "id": "c1"}),
            replies={"m": {"responses": rows, "usage": {"input_tokens": 1, "output_tokens": 1}}},
            tools=[convert_to_openai_tool(act)],
            question="",
            parsers=parsers_of([act]) if is_parsed else {},
        )
        council = Deliberation(
            [ScriptedAgent("m")], mode="verify", policy=SupportPolicy(0.6), clusterer=None
        )
        rulings = []
        return count_calls(lambda: rulings.append(council.rule(proposals))), rulings[0].decision

    rule(1)  # what is done once
    (few, decision) = rule(100)
    (many, _) = rule(400)
    assert decision["action"] == ("abstain" if step else "answer")
    assert many < 4.2 * few
    assert many < 400 * 4 * 100
