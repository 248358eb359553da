import asyncio

from openai import AsyncOpenAI
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from report import BASE_URL, PAID, QUESTIONS, Place, pay, report


def asking(model_class, *, is_stream, output=Place):
    async def run(kind):
        client = AsyncOpenAI(base_url=BASE_URL, api_key="none", max_retries=0)
        model = model_class("g", provider=OpenAIProvider(openai_client=client))
        tools = [pay] if kind == "call" else []
        agent = Agent(model, tools=tools, output_type=output if kind == "structured" else str)
        if not is_stream:
            return (await agent.run(QUESTIONS[kind])).output
        async with agent.run_stream(QUESTIONS[kind]) as result:
            return await result.get_output()

    def ask(kind):
        PAID.clear()
        said = asyncio.run(run(kind))
        return "; then ".join([*PAID, str(said)]) if kind == "call" else str(said)

    return ask


report(
    "pydantic-ai-slim",
    **{
        "responses": asking(OpenAIResponsesModel, is_stream=False),
        "responses, stream": asking(OpenAIResponsesModel, is_stream=True),
        "chat": asking(OpenAIChatModel, is_stream=False),
        "chat, stream": asking(OpenAIChatModel, is_stream=True),
        "chat, NativeOutput": asking(OpenAIChatModel, is_stream=False, output=NativeOutput(Place)),
    },
)
