import dspy
from report import BASE_URL, PARAMETERS, QUESTIONS, Place, report

MODEL = dspy.LM("openai/g", api_base=BASE_URL, api_key="none", cache=False, num_retries=0)


def plain(kind):
    if kind == "call":
        tool = {"type": "function", "function": {"name": "pay", "parameters": PARAMETERS}}
        return str(MODEL(QUESTIONS[kind], tools=[tool])[0])
    options = {"response_format": Place} if kind == "structured" else {}
    return str(MODEL(QUESTIONS[kind], **options)[0])


def signed(kind):
    if kind == "call":  # by the prompt alone: a text, which no group can run
        return None
    with dspy.context(lm=MODEL, adapter=dspy.JSONAdapter()):
        return str(dspy.Predict("question -> city, country")(question=QUESTIONS[kind]))


report("dspy", **{"`LM`": plain, "`Predict`, `JSONAdapter`": signed})
