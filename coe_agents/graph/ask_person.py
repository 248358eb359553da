"""Owns `AskPerson`: a person decides an escalated case, and the run waits for the reply."""

from typing import Any, Literal, get_args

from langchain_core.runnables import Runnable, RunnableConfig

from coe_agents.checks import one_of
from coe_agents.types import EscalatedCase, Ruling

Form = Literal["coe", "agent_chat_ui"]


class AskPerson(Runnable[EscalatedCase, Ruling]):
    """Asks a person to decide; for `escalation=`. The graph needs a checkpointer, and waits at an `interrupt`.

    After an invalid reply the run interrupts again and says what was wrong. Resuming does not sample again, not even in
    a subgraph, unless the subgraph is compiled with `checkpointer=False`.

    Args:
        form: The format of the request, and of the reply that you pass as `Command(resume=reply)`. The interrupt's
            `response_schema` describes the reply.

            "coe" shows a `PersonRequest`. The reply is `{"type": "approve", "candidate": number}`,
            `{"type": "answer", "answer": text}` or `{"type": "reject", "reason": text}`, whose reason is optional.

            "agent_chat_ui" shows the `{"action_requests": [...], "review_configs": [...]}` of LangChain's
            `HumanInTheLoopMiddleware`. The reply is `{"decisions": [decision]}`, its type "approve" (the best supported
            answer), "edit" or "respond" (another answer), or "reject". The arguments of the request hold that answer
            and, for the person to see, all `candidates`; only the answer can be edited.

    Raises:
        ValueError: If the form is unknown.
    """

    name = "person"
    interrupts = True

    def __init__(self, form: Form = "coe") -> None:
        self.form = one_of(form, '"form" of AskPerson', get_args(Form), advice='"coe" shows the most')

    def __repr__(self) -> str:
        return f"AskPerson({self.form!r})"

    def invoke(self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any) -> Ruling:
        """Asks until the reply can be used, and returns its ruling."""
        from coe_agents.graph import person_replies as replies  # here, since few runs ask a person

        return replies.ask_in_own_form(input) if self.form == "coe" else replies.ask_for_review(input)

    async def ainvoke(self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any) -> Ruling:
        return self.invoke(input, config)
