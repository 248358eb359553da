"""A program for an interpreter with inspect_ai: prints the samples of a log that it wrote."""

import json
from pathlib import Path

from coe_agents.evaluation import Samples

LOG = Path(__file__).parent / "evaluation" / "samples" / "files" / "capitals.eval"
found = []
with Samples([LOG]) as samples:
    for question in samples:
        responses = [[each["index"], each["text"], each["correct"]] for each in question.responses]
        found.append([question.text, question.references, responses])
print(json.dumps(found))
