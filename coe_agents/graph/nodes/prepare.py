"""Owns the first node: it determines the question and the conversation, and clears the former turn."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
    convert_to_openai_messages,
)
from langgraph.types import Overwrite

from coe_agents.actions.structured import ANSWER, check_answer_schema
from coe_agents.graph.context import RunSettings, read_changes
from coe_agents.graph.shown_tools import check_tools
from coe_agents.graph.state import STATE_VERSION, CoEState, PlanData, Turn, begin_round
from coe_agents.types import WITHHELD_MARK

History = Literal["conversation", "question"]
NO_QUESTION = (
    'the input must hold a "question", or "messages" with a text of the user; got neither. Call the graph with '
    '{"question": "..."}. Where it is a node of another graph, that graph\'s state must have the key "question", too: '
    "LangGraph drops a key that a state lacks"
)
"""What is said of an input that asks nothing."""


class QuestionTooLongError(ValueError):
    """A question with more characters than `max_question_chars` of the graph."""


def prepare_node(
    max_question_chars: int,
    settings: RunSettings,
    *,
    history: History = "conversation",
    checks: Sequence[Callable[[], None]] = (),
    tools: list[dict[str, Any]] | None = None,
) -> Callable[[CoEState], dict[str, Any]]:
    """Returns the node that determines question, conversation and settings of a turn, and clears the former one.

    `checks` are called first; one raises if the run must not start. `tools` are shown where the input names none.
    """

    def prepare(state: CoEState) -> dict[str, Any]:
        for check in checks:
            check()
        question, added, conversation = _read_question(state)
        if len(question) > max_question_chars:
            raise QuestionTooLongError(
                f"the question must have at most {max_question_chars} characters "
                f'("max_question_chars" of the graph); got {len(question)}. '
                "Shorten it, or build the graph with a higher bound"
            )
        visible = _visible(conversation, question, history)
        choices = _check_choices(state.get("choices"))
        turn_tools = _tools_of(state, tools, choices)
        schema = _check_schema(state.get("answer_schema"), choices, turn_tools)
        is_review = bool(state.get("is_review"))
        asks_for_text = choices is None and turn_tools is None and schema is None and not is_review
        answers = None
        if asks_for_text and settings.answers is not None:
            answers = settings.answers.kind
        return {
            "turn": Turn(
                state_version=STATE_VERSION,
                context=read_changes(settings),
                question=question,
                choices=choices,
                is_review=is_review,
                tools=turn_tools,
                answer_schema=schema,
                answers=answers,
                conversation=convert_to_openai_messages(visible),
                last_seen=conversation[-1].id,
            ),
            "messages": added,
            "round": 0,
            "plan": PlanData(strategy=None, overrides=None, shows_answers=False),
            "clock": begin_round(),
            "trajectory": [],
            "former_responses": Overwrite([]),
            "former_labels": {},
            "responses": Overwrite([]),
            "usages": Overwrite([]),
        }

    return prepare


def _read_question(state: CoEState) -> tuple[str, list[AnyMessage], list[AnyMessage]]:
    """Returns the question of this turn, the message to add for it, and the conversation with it."""
    stated = state.get("question")
    if stated is not None and not isinstance(stated, str):
        raise TypeError(
            f'"question" of the input must be a string; got {stated!r}. Write {{"question": "..."}}'
        )
    if stated is not None and not stated.strip():
        raise ValueError(
            f'"question" of the input must be a text that is not blank; got {stated!r}. Write {{"question": "..."}}'
        )
    messages = list(state.get("messages") or [])
    former_turn = state.get("turn")
    new = _added_this_turn(messages, former_turn["last_seen"] if former_turn else None)
    if stated is None:
        return _last_question(messages, new), [], messages

    question = stated.strip()
    if new and _is_said(new[-1], question):
        return question, [], messages
    asked = HumanMessage(question, id=str(uuid.uuid4()))
    return question, [asked], [*messages, asked] if new else [asked]


def _last_question(messages: Sequence[AnyMessage], new: Sequence[AnyMessage]) -> str:
    """Returns the last text of the user among the new messages, or among all after results of calls alone."""
    texts = _human_texts(new)
    if not texts and any(isinstance(message, ToolMessage) for message in new):
        # the calls answered the former turn: its question is still open
        texts = _human_texts(messages)
    if not texts:
        raise ValueError(NO_QUESTION)
    return texts[-1]


def _human_texts(messages: Sequence[AnyMessage]) -> list[str]:
    texts = [message.text.strip() for message in messages if isinstance(message, HumanMessage)]
    return [text for text in texts if text]


def _is_said(message: AnyMessage, question: str) -> bool:
    return isinstance(message, HumanMessage) and message.text.strip() == question


def _visible(
    conversation: Sequence[AnyMessage], question: str, history: History
) -> list[AnyMessage]:
    """Returns what the agents see; the question is always there, also where a refusal of it follows.

    So are the calls that followed it, and their results.
    """
    conversation = _without_open_calls(conversation, question)
    places = [place for place, message in enumerate(conversation) if _is_said(message, question)]
    place = places[-1]
    before = without_refusals(conversation[:place])
    after = [message for message in conversation[place + 1 :] if not _is_refusal(message)]
    if history == "question":
        before = []
        after = [
            message for message in after if isinstance(message, ToolMessage) or _calls(message)
        ]
    return [*before, conversation[place], *after]


def _without_open_calls(conversation: Sequence[AnyMessage], question: str) -> list[AnyMessage]:
    """Returns the conversation without calls that have no result, which no model accepts.

    A turn of nothing else is left out, with its question unless it is `question`.
    """
    done = {message.tool_call_id for message in conversation if isinstance(message, ToolMessage)}
    kept: list[AnyMessage] = []
    for message in conversation:
        calls = _calls(message)
        calls_done = [call for call in calls if call["id"] in done]
        if not isinstance(message, AIMessage) or len(calls_done) == len(calls):
            kept.append(message)
        elif calls_done or message.text.strip():
            kept.append(AIMessage(message.content, id=message.id, tool_calls=calls_done))
        elif kept and isinstance(kept[-1], HumanMessage) and kept[-1].text.strip() != question:
            kept.pop()
    return kept


def _calls(message: AnyMessage) -> list[ToolCall]:
    return message.tool_calls if isinstance(message, AIMessage) else []


def without_refusals(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Returns a conversation without the turns that a gate did not answer: neither its refusal nor the question.

    Models that see a refusal tend to refuse, and many chat templates do not accept two messages of the user in a row. A
    refusal is recognised by its mark or, where a client sent the conversation without it, by the field `refusal` of
    OpenAI's API.
    """
    kept: list[AnyMessage] = []
    for message in messages:
        if not _is_refusal(message):
            kept.append(message)
        elif kept and isinstance(kept[-1], HumanMessage):
            kept.pop()
    return kept


def _is_refusal(message: AnyMessage) -> bool:
    if not isinstance(message, AIMessage):
        return False
    decision = message.response_metadata.get("decision")
    if isinstance(decision, dict) and "action" in decision:  # as earlier versions marked it
        return bool(decision["action"] != "answer")
    if message.response_metadata.get(WITHHELD_MARK):
        return True
    # as OpenAI's API and `serve` do
    return bool(message.additional_kwargs.get("refusal")) and not message.text


def _tools_of(
    state: CoEState, of_graph: list[dict[str, Any]] | None, choices: list[str] | None
) -> list[dict[str, Any]] | None:
    tools = state.get("tools")
    if tools is None:
        return of_graph if choices is None else None
    if tools == []:
        return None
    if choices is not None:
        raise ValueError(
            'the input must hold "choices" or "tools", not both; got both. Ask for one of the choices without tools'
        )
    return check_tools(tools, where='"tools" of the input')


def _check_schema(
    schema: Any, choices: list[str] | None, tools: list[dict[str, Any]] | None
) -> dict[str, Any] | None:
    if schema is None:
        return None
    if choices is not None:
        raise ValueError(
            'the input must hold "choices" or "answer_schema", not both; got both. Omit one of them'
        )
    if any(tool["function"]["name"] == ANSWER for tool in tools or ()):
        raise ValueError(
            f'no tool may have the name "{ANSWER}" beside an "answer_schema". Rename it'
        )
    return check_answer_schema(schema, where='"answer_schema" of the input')


def _check_choices(choices: Any) -> list[str] | None:
    if choices is None:
        return None
    words: set[str] = set()
    if isinstance(choices, list):
        words = {choice.strip().lower() for choice in choices if isinstance(choice, str)}
        words.discard("")
    # as many as there are choices: what is blank, equal to another or no text is missing
    if len(words) < 2 or len(words) < len(choices):
        raise ValueError(
            f'"choices" of the input must be a list of at least two words that differ; got {choices!r}. '
            'Write {"question": "...", "choices": ["approve", "reject"]}'
        )
    return [choice.strip() for choice in choices]


def _added_this_turn(messages: Sequence[AnyMessage], last_seen: str | None) -> list[AnyMessage]:
    """Returns the messages after the last one of the former turn, without the answer that this graph gave to it."""
    places = [place for place, message in enumerate(messages) if message.id == last_seen]
    if last_seen is None or not places:
        return list(messages)
    after = messages[places[-1] + 1 :]
    return [message for message in after if "decision" not in message.response_metadata]
