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
from coe_agents.graph.round_state import begin_round
from coe_agents.graph.shown_tools import check_tools
from coe_agents.graph.state import STATE_VERSION, CoEState, Plan, Turn
from coe_agents.types import WITHHELD_MARK

History = Literal["conversation", "question"]


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
        asked, messages, conversation = _read_question(state)
        if len(asked) > max_question_chars:
            raise QuestionTooLongError(
                f"the question must have at most {max_question_chars} characters "
                f'("max_question_chars" of the graph); got {len(asked)}. '
                "Shorten it, or build the graph with a higher bound"
            )
        shown, allowed = _shown(conversation, asked, history), _choices(state.get("choices"))
        with_tools, is_review = _tools(state, tools, allowed), bool(state.get("is_review"))
        schema = _schema(state.get("answer_schema"), allowed, with_tools)
        has_words = allowed is None and with_tools is None and schema is None and not is_review
        return {
            "turn": Turn(
                state_version=STATE_VERSION,
                context=read_changes(settings),
                question=asked,
                choices=allowed,
                is_review=is_review,
                tools=with_tools,
                answer_schema=schema,
                answers=settings.answers.kind
                if settings.answers is not None and has_words
                else None,
                conversation=convert_to_openai_messages(shown),
                last_seen=conversation[-1].id,
            ),
            "messages": messages,
            "round": 0,
            "plan": Plan(strategy=None, overrides=None, shows_answers=False),
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
    given, messages = state.get("question"), list(state.get("messages") or [])
    if given is not None and not isinstance(given, str):
        raise TypeError(
            f'"question" of the input must be a string; got {given!r}. Write {{"question": "..."}}'
        )
    if given is not None and not given.strip():
        raise ValueError(
            f'"question" of the input must be a text that is not blank; got {given!r}. Write {{"question": "..."}}'
        )
    added = _added_this_turn(
        messages, former["last_seen"] if (former := state.get("turn")) else None
    )
    texts = [message.text.strip() for message in added if isinstance(message, HumanMessage)]
    if (
        given is None
        and not any(texts)
        and any(isinstance(message, ToolMessage) for message in added)
    ):
        # the results of the calls that answered the former turn: its question is open still
        texts = [message.text.strip() for message in messages if isinstance(message, HumanMessage)]
    question = (
        given.strip() if given is not None else next((text for text in reversed(texts) if text), "")
    )
    if not question:
        raise ValueError(
            'the input must hold a "question", or "messages" with a text of the user; got neither. '
            'Call the graph with {"question": "..."}'
        )
    is_last = (
        bool(added) and isinstance(added[-1], HumanMessage) and added[-1].text.strip() == question
    )
    asked: list[AnyMessage] = (
        [] if given is None or is_last else [HumanMessage(question, id=str(uuid.uuid4()))]
    )
    return question, asked, [*messages, *asked] if added else asked


def _shown(conversation: Sequence[AnyMessage], question: str, history: History) -> list[AnyMessage]:
    """Returns what the agents see; the question is always there, also where a refusal of it follows.

    So are the calls that followed it, and their results.
    """
    conversation = _without_open_calls(conversation, question)
    place = max(
        number
        for number, message in enumerate(conversation)
        if isinstance(message, HumanMessage) and message.text.strip() == question
    )
    after = [message for message in conversation[place + 1 :] if not _is_refusal(message)]
    if history == "question":
        calls = [
            message for message in after if isinstance(message, ToolMessage) or _calls(message)
        ]
        return [conversation[place], *calls]
    return [*without_refusals(conversation[:place]), conversation[place], *after]


def _without_open_calls(conversation: Sequence[AnyMessage], question: str) -> list[AnyMessage]:
    """Returns the conversation without calls that have no result, which no model accepts.

    A turn of nothing else is left out, with its question unless it is `question`.
    """
    done = {message.tool_call_id for message in conversation if isinstance(message, ToolMessage)}
    kept: list[AnyMessage] = []
    for message in conversation:
        calls = _calls(message)
        if not isinstance(message, AIMessage) or all(call["id"] in done for call in calls):
            kept.append(message)
        elif message.text.strip() or any(call["id"] in done for call in calls):
            run = [call for call in calls if call["id"] in done]
            kept.append(AIMessage(message.content, id=message.id, tool_calls=run))
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


def _tools(
    state: CoEState, own: list[dict[str, Any]] | None, allowed: list[str] | None
) -> list[dict[str, Any]] | None:
    given = state.get("tools")
    if given == []:
        return None
    if given is not None and allowed is not None:
        raise ValueError(
            'the input must hold "choices" or "tools", not both; got both. Ask for one of the choices without tools'
        )
    if given is None:
        return own if allowed is None else None
    return check_tools(given, where='"tools" of the input')


def _schema(
    given: Any, allowed: list[str] | None, tools: list[dict[str, Any]] | None
) -> dict[str, Any] | None:
    if given is None:
        return None
    if allowed is not None:
        raise ValueError(
            'the input must hold "choices" or "answer_schema", not both; got both. Omit one of them'
        )
    if any(tool["function"]["name"] == ANSWER for tool in tools or ()):
        raise ValueError(
            f'no tool may have the name "{ANSWER}" beside an "answer_schema". Rename it'
        )
    return check_answer_schema(given, where='"answer_schema" of the input')


def _choices(given: Any) -> list[str] | None:
    if given is None:
        return None
    words = (
        [choice.strip().lower() for choice in given if isinstance(choice, str)]
        if isinstance(given, list)
        else []
    )
    if (
        not isinstance(given, list)
        or len(words) < len(given)
        or len(set(words) - {""}) < max(len(given), 2)
    ):
        raise ValueError(
            f'"choices" of the input must be a list of at least two words that differ; got {given!r}. '
            'Write {"question": "...", "choices": ["approve", "reject"]}'
        )
    return given


def _added_this_turn(messages: Sequence[AnyMessage], last_seen: str | None) -> list[AnyMessage]:
    """Returns the messages after the last one of the former turn, without the answer that this graph gave to it."""
    places = [
        place
        for place, message in enumerate(messages)
        if message.id == last_seen and last_seen is not None
    ]
    after = messages[places[-1] + 1 :] if places else messages
    return [
        message for message in after if not (places and "decision" in message.response_metadata)
    ]
