"""A model that speaks the Hermes form: a chat template that shows tools, and replies that a test has written."""

import re
from contextlib import contextmanager
from itertools import cycle
from unittest.mock import patch

from coe_agents.backends import ChatTransformers, batching
from coe_agents.backends.generation import DrawnToken
from coe_agents.tinyworld import model_folder

FIRST_TOOL = "FIRST_TOOL"
"""In a reply, the name of the first tool that its prompt shows."""
FOLDER = str(model_folder("tiny-llama"))
TEMPLATE = """\
{{- bos_token }}
{%- if tools %}
    {{- '<|system|># Tools\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\nTo call one: <tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call><|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|user|><tool_response>\\n' + message.name + ': ' + message.content + '\\n</tool_response><|eot_id|>' }}
    {%- else %}
        {{- '<|' + message.role + '|>' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""


def create_chat(**options):
    """Returns an embedded model with the template; it was never trained to call a tool."""
    return ChatTransformers(FOLDER, chat_template=TEMPLATE, **options)


@contextmanager
def scripted(*replies, is_cut=False):
    """Lets every model reply with these texts in turn, each token at log-probability -0.5; yields its prompts."""
    prompts, texts = [], cycle(replies)

    def draw_rows(loaded, given, rows, settings):
        prompts.extend(loaded.tokenizer.decode(prompt) for prompt in given)
        drawn = []
        for row in rows:
            prompt = loaded.tokenizer.decode(given[row.prompt])
            first, *_ = re.findall(r'"name": "(\w+)"', prompt) or [""]
            text = _rest_of(next(texts).replace(FIRST_TOOL, first), prompt)
            ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
            tokens = [
                DrawnToken(number, -0.5, ())
                for number in [*ids, *([] if is_cut else loaded.end_tokens[:1])]
            ]
            drawn.append(tokens)
        return drawn

    with patch.object(batching, "draw_rows", draw_rows):
        yield prompts


def _rest_of(reply, prompt):
    """Returns the reply without the beginning that the prompt ends with, which is there where a call must be made."""
    return reply[max(n for n in range(len(reply) + 1) if prompt.endswith(reply[:n])) :]
