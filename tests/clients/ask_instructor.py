import instructor
import openai
from report import BASE_URL, QUESTIONS, Place, report

CLIENT = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0)


def asking(mode, *, is_stream=False):
    client = instructor.from_openai(CLIENT, mode=mode)

    def ask(kind):
        if kind in ("answer", "call"):
            return None
        options = {"model": "g", "response_model": Place, "max_retries": 0}
        asked = [{"role": "user", "content": QUESTIONS[kind]}]
        if is_stream:
            objects = [*client.chat.completions.create_partial(messages=asked, **options)]
            return repr(objects[-1]) if objects else ""
        return repr(client.chat.completions.create(messages=asked, **options))

    return ask


report(
    "instructor",
    **{
        "TOOLS": asking(instructor.Mode.TOOLS),
        "TOOLS, stream": asking(instructor.Mode.TOOLS, is_stream=True),
        "JSON_SCHEMA": asking(instructor.Mode.JSON_SCHEMA),
    },
)
