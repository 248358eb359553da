from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from report import BASE_URL, QUESTIONS, Place, pay, report

MODEL = OpenAILike(
    model="g",
    api_base=BASE_URL,
    api_key="none",
    is_chat_model=True,
    is_function_calling_model=True,
    max_retries=0,
)


def called(reply):
    calls = MODEL.get_tool_calls_from_response(reply)
    return ", ".join(f"{call.tool_name}({call.tool_kwargs})" for call in calls)


def whole(kind):
    if kind == "structured":
        return repr(MODEL.as_structured_llm(Place).complete(QUESTIONS[kind]).raw)
    if kind == "call":
        return called(
            MODEL.chat_with_tools([FunctionTool.from_defaults(pay)], user_msg=QUESTIONS[kind])
        )
    return MODEL.chat([ChatMessage(role="user", content=QUESTIONS[kind])]).message.content or ""


def stream(kind):
    if kind == "structured":
        *_, last = MODEL.as_structured_llm(Place).stream_chat(
            [ChatMessage(role="user", content=QUESTIONS[kind])]
        )
        return repr(last.raw)
    if kind == "call":
        *_, last = MODEL.stream_chat_with_tools(
            [FunctionTool.from_defaults(pay)], user_msg=QUESTIONS[kind]
        )
        return called(last)
    parts = MODEL.stream_chat([ChatMessage(role="user", content=QUESTIONS[kind])])
    return "".join(part.delta or "" for part in parts)


report("llama-index-llms-openai-like", whole=whole, stream=stream)
