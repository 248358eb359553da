"""Owns the prompts that the language models of tinyworld were trained on, frozen at the time of training.

They are the wordings that `coe_agents.prompts` had then. A change there concerns large models and leaves these alone;
after a change here, or of `DEBATE` in the package, the models must be retrained.
"""

from collections.abc import Sequence

from coe_agents.tinyworld.facts import ANSWERS, DEBATE, REFUSALS, RELATIONS

SELF_CHECK_CHOICES = ("True", "False")

_LIMIT = 300


def self_check(question: str, answer: str) -> str:
    """Asks whether a proposed answer is right; the reply is one of `SELF_CHECK_CHOICES`."""
    return f"{question}\n<answer>{_quote(answer)}</answer>\nIs this answer correct? Reply True or False."


def debate(question: str, answers: Sequence[tuple[str, float]]) -> str:
    """Shows the distinct answers given so far, each with its support in [0, 1], and asks to reconsider."""
    listed = "\n".join(
        f'<answer support="{support:.0%}">{_quote(text)}</answer>' for text, support in answers
    )
    return DEBATE.replace("{answers}", listed).replace("{question}", question, 1)


def _quote(text: str) -> str:
    line = " ".join(text.split()).replace("<", "‹").replace(">", "›")
    return line if len(line) <= _LIMIT else line[: _LIMIT - 1] + "…"


def set_phrases() -> list[str]:
    """Returns the text between names in all wordings and prompts.

    Each is one token of every model: sequences are half as long then, and a name is cut into the same tokens wherever
    it stands.
    """
    gap = "\0"
    wordings = [
        text
        for relation in RELATIONS.values()
        for text in (*relation.questions, *relation.statements)
    ]
    texts = [text.replace("{s}", gap).replace("{a}", gap) for text in (*wordings, *ANSWERS)]
    shown = debate(gap, [(gap, 0.5), (gap, 0.5)]).replace("50", gap)
    texts += [*REFUSALS, self_check(gap, gap), shown]
    return sorted({phrase for text in texts for phrase in text.split(gap) if len(phrase) > 2})
