import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from report import BASE_URL, PAID, QUESTIONS, Place, pay, report

set_tracing_disabled(True)


def asking(model_class, *, is_stream):
    async def run(kind):
        client = AsyncOpenAI(base_url=BASE_URL, api_key="none", max_retries=0)
        model = model_class("g", client)
        tools = [function_tool(pay)] if kind == "call" else []
        agent = Agent(
            name="a", model=model, tools=tools, output_type=Place if kind == "structured" else None
        )
        PAID.clear()
        if not is_stream:
            result = await Runner.run(agent, QUESTIONS[kind])
            return result.final_output
        result = Runner.run_streamed(agent, QUESTIONS[kind])
        shown = ""
        async for event in result.stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                shown += event.data.delta
        return shown if kind in ("answer", "refusal") else result.final_output

    def ask(kind):
        output = asyncio.run(run(kind))
        return "; then ".join([*PAID, str(output)]) if kind == "call" else str(output)

    return ask


report(
    "openai-agents",
    **{
        "responses": asking(OpenAIResponsesModel, is_stream=False),
        "responses, stream": asking(OpenAIResponsesModel, is_stream=True),
        "chat": asking(OpenAIChatCompletionsModel, is_stream=False),
        "chat, stream": asking(OpenAIChatCompletionsModel, is_stream=True),
    },
)
