import openai
from report import BASE_URL, PARAMETERS, QUESTIONS, Place, report, said

CLIENT = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0)
PAY = {"name": "pay", "parameters": PARAMETERS}


def messages(kind):
    return {"model": "g", "messages": [{"role": "user", "content": QUESTIONS[kind]}]}


def with_tools(kind):
    return {"tools": [{"type": "function", "function": PAY}]} if kind == "call" else {}


def whole(kind):
    if kind == "structured":
        asked = CLIENT.chat.completions.parse(**messages(kind), response_format=Place)
        return repr(asked.choices[0].message.parsed)
    return said(
        CLIENT.chat.completions.create(**messages(kind), **with_tools(kind)).choices[0].message
    )


def stream(kind):
    options = {"response_format": Place} if kind == "structured" else with_tools(kind)
    with CLIENT.chat.completions.stream(**messages(kind), **options) as events:
        message = events.get_final_completion().choices[0].message
    return repr(message.parsed) if kind == "structured" else said(message)


def of_responses(response, kind):
    if kind == "structured":
        return repr(response.output_parsed)
    for item in response.output:
        if item.type == "function_call":
            return f"{item.name}({item.arguments})"
    return response.output_text or response.output[0].content[0].refusal


def asked_of_responses(kind):
    tools = {"tools": [{"type": "function", **PAY}]} if kind == "call" else {}
    return {"model": "g", "input": QUESTIONS[kind], **tools}


def responses(kind):
    if kind == "structured":
        return of_responses(
            CLIENT.responses.parse(**asked_of_responses(kind), text_format=Place), kind
        )
    return of_responses(CLIENT.responses.create(**asked_of_responses(kind)), kind)


def responses_stream(kind):
    options = {"text_format": Place} if kind == "structured" else {}
    with CLIENT.responses.stream(**asked_of_responses(kind), **options) as events:
        return of_responses(events.get_final_response(), kind)


of_responses_api = {"responses": responses, "responses, stream": responses_stream}
report("openai", **{"chat": whole, "chat, stream": stream, **of_responses_api})
