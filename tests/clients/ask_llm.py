from llm.default_plugins.openai_models import Chat
from report import BASE_URL, PAID, QUESTIONS, Place, pay, report

MODEL = Chat(
    "g", model_name="g", api_base=BASE_URL, key="none", supports_schema=True, supports_tools=True
)


def asking(*, is_stream):
    def ask(kind):
        if kind == "call":
            PAID.clear()
            said = MODEL.chain(QUESTIONS[kind], tools=[pay], stream=is_stream).text()
            return "; then ".join([*PAID, said])
        options = {"schema": Place} if kind == "structured" else {}
        return MODEL.prompt(QUESTIONS[kind], stream=is_stream, **options).text()

    return ask


report("llm", whole=asking(is_stream=False), stream=asking(is_stream=True))
