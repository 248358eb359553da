"""litellm's own function."""

import litellm
from pydantic import BaseModel
from report import BASE_URL, QUESTIONS, report

PARAMETERS = {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}}}
PAY = {"type": "function", "function": {"name": "pay", "parameters": PARAMETERS}}


class Place(BaseModel):
    city: str
    country: str


def complete(kind, **options):
    options |= {"tools": [PAY]} if kind == "call" else {}
    options |= {"response_format": Place} if kind == "structured" else {}
    asked = [{"role": "user", "content": QUESTIONS[kind]}]
    return litellm.completion(
        model="openai/g", api_base=BASE_URL, api_key="none", messages=asked, num_retries=0, **options
    )


def said(message):
    calls = [f"{call.function.name}({call.function.arguments})" for call in message.tool_calls or ()]
    return ", ".join(calls) or message.content or ""


def whole(kind):
    return said(complete(kind).choices[0].message)


def stream(kind):
    return said(litellm.stream_chunk_builder([*complete(kind, stream=True)]).choices[0].message)


report("litellm", whole=whole, stream=stream)
