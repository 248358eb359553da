import json

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from report import BASE_URL, PAID, QUESTIONS, Place, pay, report

MODEL = ChatOpenAI(model="g", base_url=BASE_URL, api_key="none", max_retries=0)


def said(message):
    calls = [f"{call['name']}({json.dumps(call['args'])})" for call in message.tool_calls]
    return ", ".join(calls) or message.text or message.additional_kwargs.get("refusal") or ""


def model_for(kind):
    return MODEL.bind_tools([pay]) if kind == "call" else MODEL


def whole(kind):
    if kind == "structured":
        return repr(MODEL.with_structured_output(Place).invoke(QUESTIONS[kind]))
    return said(model_for(kind).invoke(QUESTIONS[kind]))


def stream(kind):
    if kind == "structured":
        return repr([*MODEL.with_structured_output(Place).stream(QUESTIONS[kind])][-1])
    chunks = [*model_for(kind).stream(QUESTIONS[kind])]
    return said(sum(chunks[1:], start=chunks[0]))


def agent(kind):
    options = {"response_format": Place} if kind == "structured" else {}
    PAID.clear()
    made = create_agent(MODEL, [pay] if kind == "call" else [], **options)
    result = made.invoke({"messages": [("user", QUESTIONS[kind])]})
    if kind == "structured":
        return repr(result["structured_response"])
    return "; ".join([*PAID, said(result["messages"][-1])])


report("langchain-openai", **{"whole": whole, "stream": stream, "`create_agent`": agent})
