import asyncio

from autogen_core.models import ModelInfo, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from report import BASE_URL, QUESTIONS, Place, pay, report

INFO = ModelInfo(
    vision=False, function_calling=True, json_output=True, structured_output=True, family="unknown"
)


def asking(*, is_stream):
    async def run(kind):
        client = OpenAIChatCompletionClient(
            model="g", base_url=BASE_URL, api_key="x", model_info=INFO, max_retries=0
        )
        asked = [UserMessage(content=QUESTIONS[kind], source="user")]
        options = (
            {"tools": [FunctionTool(pay, description="Pays somebody.")]} if kind == "call" else {}
        )
        options |= {"json_output": Place} if kind == "structured" else {}
        if not is_stream:
            result = await client.create(asked, **options)
        else:
            result = [part async for part in client.create_stream(asked, **options)][-1]
        if isinstance(result.content, str):
            return result.content
        return ", ".join(f"{call.name}({call.arguments})" for call in result.content)

    return lambda kind: asyncio.run(run(kind))


report("autogen-ext", whole=asking(is_stream=False), stream=asking(is_stream=True))
