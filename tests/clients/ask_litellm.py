import litellm
from report import BASE_URL, PARAMETERS, QUESTIONS, Place, report, said

PAY = {"type": "function", "function": {"name": "pay", "parameters": PARAMETERS}}


def complete(kind, **options):
    options |= {"tools": [PAY]} if kind == "call" else {}
    options |= {"response_format": Place} if kind == "structured" else {}
    asked = [{"role": "user", "content": QUESTIONS[kind]}]
    options |= {"api_base": BASE_URL, "api_key": "none", "num_retries": 0}
    return litellm.completion(model="openai/g", messages=asked, **options)


def whole(kind):
    return said(complete(kind).choices[0].message)


def stream(kind):
    return said(litellm.stream_chunk_builder([*complete(kind, stream=True)]).choices[0].message)


report("litellm", whole=whole, stream=stream)
