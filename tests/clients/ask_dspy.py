"""DSPy: a signature, by its chat adapter and by its JSON adapter."""

import dspy
from report import BASE_URL, QUESTIONS, report

MODEL = dspy.LM("openai/g", api_base=BASE_URL, api_key="none", cache=False, num_retries=0)


def plain(kind):
    if kind in ("call", "structured"):
        return None
    return str(MODEL(QUESTIONS[kind])[0])


report("dspy", **{"`LM`": plain})
