from report import BASE_URL, QUESTIONS, report, said
from smolagents import OpenAIModel, tool

MODEL = OpenAIModel(
    model_id="g", api_base=BASE_URL, api_key="none", client_kwargs={"max_retries": 0}
)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}


@tool
def pay(to: str, amount: float) -> str:
    """Pays somebody.

    Args:
        to: Whom.
        amount: How much.
    """
    return "paid"


def options_for(kind):
    return {"call": {"tools_to_call_from": [pay]}, "structured": {"response_format": FORMAT}}.get(
        kind, {"stop_sequences": ["Observation:"]}
    )


def asked(kind):
    return [{"role": "user", "content": [{"type": "text", "text": QUESTIONS[kind]}]}]


def whole(kind):
    return said(MODEL.generate(asked(kind), **options_for(kind)))


def stream(kind):
    deltas = [*MODEL.generate_stream(asked(kind), **options_for(kind))]
    if kind == "call":
        calls = [call for delta in deltas for call in delta.tool_calls or ()]
        return ", ".join(
            f"{call.function.name}({call.function.arguments})" for call in calls if call.function
        )
    return "".join(delta.content or "" for delta in deltas)


report("smolagents", whole=whole, stream=stream)
