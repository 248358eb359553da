"""Owns the node that asks the user to clarify the question; the next round starts afresh with the reply."""

import uuid
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Overwrite
from pydantic import TypeAdapter

from coe_agents import prompts
from coe_agents.graph.nodes.escalation import case_of
from coe_agents.graph.people import Spoken, ask_about_case
from coe_agents.graph.state import CoEState, PlanData, begin_round
from coe_agents.rounds.strategies import CLARIFY

_REPLY: TypeAdapter[str] = TypeAdapter(Spoken)


def clarify_node(max_question_chars: int) -> Callable[[CoEState], dict[str, Any]]:
    """Returns the node that asks the user what is meant and opens a round on the question with the reply.

    Earlier responses no longer count; their cost does. Both texts join the conversation.
    """

    def clarify(state: CoEState) -> dict[str, Any]:
        case = case_of(state)
        answers = [(candidate["answer"], candidate["support"]) for candidate in case["candidates"]]
        asked = prompts.clarification(case["question"], answers)

        def read(reply: str) -> tuple[str, str]:
            question = prompts.clarify(case["question"], reply)
            if len(question) > max_question_chars:
                raise ValueError(
                    f"with it the question has {len(question)} characters; {max_question_chars} are allowed"
                )
            return question, reply

        question, reply = ask_about_case("clarify", case, asked, _REPLY, read)
        turn = state["turn"]
        conversation = prompts.rephrase(turn["conversation"], question)
        answered = HumanMessage(reply, id=str(uuid.uuid4()))
        return {
            "turn": {
                **turn,
                "question": question,
                "conversation": conversation,
                "last_seen": answered.id,
            },
            "messages": [AIMessage(asked), answered],
            "round": state["round"] + 1,
            "plan": PlanData(strategy=CLARIFY, overrides=None, shows_answers=False),
            "clock": begin_round(state["clock"]["elapsed"]),
            "former_responses": state["responses"],
            "responses": Overwrite([]),
        }

    return clarify
