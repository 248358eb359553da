import asyncio

import pytest
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import TypeAdapter

from coe_agents import AskPerson, RegimePolicy
from coe_agents.errors import ConfigurationError
from coe_agents.text import is_visible
from tests.graph import groups
from tests.graph.groups import ESCALATE, THREAD, around, saying

QUESTION = {"question": "Q?"}
ASKED = "Approve a candidate by its number, give an answer of your own, or reject them all."


def group():
    return saying("Paris", "Lyon", "Lyon")


def saved(form="coe", agents=None, policy=ESCALATE):
    return groups.saved(*(agents or group()), policy=policy, escalation=AskPerson(form))


def shown(result):
    (waiting,) = result["__interrupt__"]
    return waiting.value


def n_samplings(agents):
    return [len(agent.requests) for agent in agents]


def test_a_person_is_shown_the_case():
    result = saved().invoke(QUESTION, THREAD)
    assert "decision" not in result
    request = shown(result)
    numbers = [request.pop(name) for name in ("coe", "aleatoric", "epistemic")]
    assert numbers == pytest.approx([0.6365, 0.0, 0.6365], abs=1e-4)  # log 3 - 2/3 log 2
    assert [one.pop("support") for one in request["candidates"]] == pytest.approx([2 / 3, 1 / 3])
    assert request.pop("reason")
    assert request == {
        "type": "escalation",
        "question": "Q?",
        "candidates": [
            {"number": 1, "answer": "Lyon", "agents": {"b": 1.0, "c": 1.0}},
            {"number": 2, "answer": "Paris", "agents": {"a": 1.0}},
        ],
        "regime": "conflict",
        "asked": ASKED,
        "problem": None,
    }
    mapping = result["__interrupt__"][0].response_schema["discriminator"]["mapping"]
    assert set(mapping) == {"approve", "answer", "reject"}


def edit(answer, candidates):
    """What a chat interface sends that shows the arguments as fields."""
    args = {"answer": answer, "candidates": candidates}
    return {"type": "edit", "edited_action": {"name": "answer_question", "args": args}}


HIDDEN = "Lyon\u202e \u200bevil\U000e0041\u2028x"
SHOWN = "Lyon\\u202e \\u200bevil\\udb40\\udc41\\u2028x"


def texts_of(value):
    """Returns all texts in a value, names of fields included, one a line."""
    if isinstance(value, dict):
        return "\n".join([*map(str, value), *map(texts_of, value.values())])
    return "\n".join(map(texts_of, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    ("form", "reply"),
    [
        ("coe", {"type": "approve", "candidate": 1}),
        ("coe", {"type": "answer", "answer": SHOWN}),
        ("agent_chat_ui", {"type": "approve"}),
        ("agent_chat_ui", edit(SHOWN, f"1. {SHOWN} (67%)\n2. Paris (33%)")),
        ("agent_chat_ui", {"type": "respond", "message": SHOWN}),
    ],
)
def test_a_person_sees_what_is_invisible_and_approves_what_was_said(form, reply):
    graph = saved(form, saying("Paris", HIDDEN, HIDDEN))
    request = shown(graph.invoke({"question": "Which\u202e \u2066is it?"}, THREAD))
    told = texts_of(request)
    assert SHOWN in told
    assert "Which\\u202e \\u2066is it?" in told
    assert [character for character in told if not is_visible(character)] == []
    reply = {"decisions": [reply]} if form == "agent_chat_ui" else reply
    decision = graph.invoke(Command(resume=reply), THREAD)["decision"]
    assert decision["action"] == "answer"
    assert decision["answer"] == HIDDEN
    assert "a person approved answer 1 of 2" in decision["reason"]


LISTED = "1. Lyon (67%)\n2. Paris (33%)"


@pytest.mark.parametrize(
    ("reply", "action", "answer", "reason"),
    [
        (
            {"type": "approve", "candidate": 2},
            "answer",
            "Paris",
            "a person approved answer 2 of 2 (support 33%)",
        ),
        (
            {"type": "answer", "answer": " Metz "},
            "answer",
            "Metz",
            "a person gave an answer in words of their own",
        ),
        ({"type": "answer", "answer": "Lyon"}, "answer", "Lyon", "a person approved answer 1 of 2"),
        (
            {"type": "reject", "reason": "no"},
            "abstain",
            None,
            'a person rejected all 2 answers ("no")',
        ),
        (
            {"type": "answer", "answer": "I don't know."},
            "abstain",
            None,
            "person declines to answer",
        ),
        # of Agent Chat UI
        ({"decisions": [{"type": "approve"}]}, "answer", "Lyon", "a person approved answer 1 of 2"),
        (
            {"decisions": [edit("Metz", LISTED)]},
            "answer",
            "Metz",
            "a person gave an answer in words",
        ),
        (
            {"decisions": [edit("Paris", LISTED)]},
            "answer",
            "Paris",
            "a person approved answer 2 of 2",
        ),
        (
            {"decisions": [{"type": "respond", "message": "Metz"}]},
            "answer",
            "Metz",
            "a person gave an answer in words",
        ),
    ],
)
def test_a_person_decides(reply, action, answer, reason):
    agents = group()
    compiled = saved("agent_chat_ui" if "decisions" in reply else "coe", agents)
    compiled.invoke(QUESTION, THREAD)
    decision = compiled.invoke(Command(resume=reply), THREAD)["decision"]
    assert n_samplings(agents) == [1, 1, 1]  # nobody was sampled twice
    assert decision["action"] == action
    assert decision["answer"] == answer
    assert decision["decided_by"] == "person"
    assert decision["cause"] == "person"
    assert decision["reason"].startswith(reason)
    assert decision["reason"].startswith(f"{decision['ruling']}; ")
    assert set(decision["tokens"]) == {"a", "b", "c"}


OTHER = {"type": "edit", "edited_action": {"name": "other", "args": {"answer": "Metz"}}}
FALSE = edit("Lyon", "2. Paris (33%)")
UNFIT = {
    "coe": [
        (
            {"type": "approve", "candidate": 3},
            '"candidate" must be a number from 1 to 2; got 3. Choose one that is shown',
        ),
        ({"type": "approve", "candidate": 0}, '"candidate" must be a number from 1 to 2; got 0'),
    ],
    "agent_chat_ui": [
        ({"decisions": []}, "got 0. Decide on all of them"),
        (
            {"decisions": [OTHER]},
            '"edited_action" must have the name "answer_question"; got "other". Edit "answer" alone',
        ),
        ({"decisions": [FALSE]}, '"candidates" of an edit must stay as it was shown; got another'),
    ],
}
"""Replies of the right form that do not fit the case, and what is said of them."""


@pytest.mark.wording
def test_it_is_said_why_a_reply_does_not_fit_the_case():
    for form, replies in UNFIT.items():
        for reply, says in replies:
            compiled = saved(form)
            compiled.invoke(QUESTION, THREAD)
            request = shown(compiled.invoke(Command(resume=reply), THREAD))
            if form == "agent_chat_ui":
                [action] = request["action_requests"]
                assert says in action["args"]["problem"]
            else:
                assert request["problem"].startswith(says)


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        *((reply, "") for reply, _ in UNFIT["coe"]),
        ({"type": "approve", "candidate": True}, "approve.candidate: "),
        ({"type": "reject", "reson": "typo"}, "reject.reson: "),
        ({"type": "answer", "answer": "x" * 20_001}, "answer.answer: "),
        ("Paris", "the reply must be an object; got str. Pass one with its fields"),
        ({"candidate": 1}, '"type" of the reply must say what is decided; got none. Add it'),
        (
            {"type": "aprove"},
            '"type" of the reply must be one of approve, answer, reject; got "aprove". Choose one of them',
        ),
        (
            {"type": "x" * 2 + "y" * 99},
            '"type" of the reply must be one of approve, answer, reject; got "xxyyy',
        ),
    ],
)
def test_a_reply_that_cannot_be_used_is_asked_for_again(reply, place):
    compiled = saved()
    compiled.invoke(QUESTION, THREAD)
    again = shown(compiled.invoke(Command(resume=reply), THREAD))
    assert again["problem"]
    assert again["problem"].startswith(place)
    assert "xxx" not in again["problem"]  # texts that were given are not said
    assert "y" * 90 not in again["problem"]  # nor a long word
    assert (
        compiled.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)["decision"][
            "answer"
        ]
        == "Lyon"
    )


@pytest.mark.parametrize("form", ["coe", "agent_chat_ui"])
async def test_a_person_is_asked_in_an_asynchronous_run_too(form):
    compiled = saved(form)
    await compiled.ainvoke(QUESTION, THREAD)
    reply: dict = {"type": "approve", "candidate": 1}
    if form == "agent_chat_ui":
        reply = {"decisions": [{"type": "approve"}]}
    decision = (await compiled.ainvoke(Command(resume=reply), THREAD))["decision"]
    assert decision["answer"] == "Lyon"
    assert decision["decided_by"] == "person"


@pytest.mark.parametrize("called", [False, True])
def test_as_a_subgraph_it_goes_on_without_sampling_again(called):
    agents = group()
    gate = groups.graph(*agents, policy=ESCALATE, escalation=AskPerson()).compile()

    def calls(state):
        return {"decision": gate.invoke({"question": state["question"]})["decision"]}

    outer = around(calls if called else gate, checkpointer=InMemorySaver())
    assert shown(outer.invoke(QUESTION, THREAD))["problem"] is None
    assert shown(outer.invoke(Command(resume="Paris"), THREAD))["problem"]
    resumed = outer.invoke(Command(resume={"type": "approve", "candidate": 2}), THREAD)
    assert resumed["decision"]["answer"] == "Paris"
    assert n_samplings(agents) == [1, 1, 1]


@pytest.mark.parametrize("compiled", [lambda gate: gate, around])
def test_without_a_checkpointer_nobody_is_asked(compiled):
    agents = group()
    given = compiled(groups.graph(*agents, policy=ESCALATE, escalation=AskPerson()).compile())
    for run in (lambda: given.invoke(QUESTION), lambda: asyncio.run(given.ainvoke(QUESTION))):
        with pytest.raises(
            ConfigurationError, match=r"may stop to ask a person.*graph.compile\(checkpointer="
        ):
            run()
    assert n_samplings(agents) == [0, 0, 0]
    assert groups.decide(*group(), policy=ESCALATE)["action"] == "escalate"  # needs none


def test_agent_chat_ui_is_shown_a_review():
    agents = saying("![x](http://x)`\n# Paris", "Lyon", "Lyon")
    request = shown(saved("agent_chat_ui", agents).invoke(QUESTION, THREAD))
    TypeAdapter(HITLRequest).validate_python(request)
    (action,) = request["action_requests"]
    (review,) = request["review_configs"]
    assert action["name"] == review["action_name"] == "answer_question"
    assert action["args"] == {
        "answer": "Lyon",
        "candidates": "1. Lyon (67%)\n2. ![x](http://x)` # Paris (33%)",
    }
    assert review["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    lines = action["description"].splitlines()
    assert lines[0] == "`Q?`"
    assert "Regime: conflict" in lines[2]
    assert lines[4:6] == ["1. `Lyon` (67%)", "2. `![x](http://x)' # Paris` (33%)"]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        *((reply, "") for reply, _ in UNFIT["agent_chat_ui"]),
        ("approve", "the reply must be an object; got str. Pass one"),
    ],
)
def test_agent_chat_ui_is_told_what_was_wrong(reply, says):
    compiled = saved("agent_chat_ui")
    compiled.invoke(QUESTION, THREAD)
    request = shown(compiled.invoke(Command(resume=reply), THREAD))
    (action,) = request["action_requests"]
    assert action["description"].startswith("**Your last reply could not be used: ")
    assert action["args"]["problem"].startswith("Your last reply could not be used: ")
    assert says in action["args"]["problem"]
    assert "_Reviewed" not in action["args"]["problem"]  # a class of ours tells a client nothing


def test_where_nobody_answered_there_is_nothing_to_approve():
    policy = RegimePolicy(0.5, 0.3, actions={"consensus": "escalate"})
    compiled = saved("agent_chat_ui", saying(*["I don't know."] * 2), policy)
    request = shown(compiled.invoke(QUESTION, THREAD))
    assert request["review_configs"][0]["allowed_decisions"] == ["edit", "reject", "respond"]
    again = shown(compiled.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD))
    assert again["action_requests"][0]["args"]["problem"]
