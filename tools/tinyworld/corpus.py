"""Owns the documents that the language models of tinyworld are trained on: a user's text and the reply to it.

Four kinds: answers, self-checks ("True" or "False" to a proposed answer), debates (a model sure of its answer keeps it,
an unsure one may adopt one that it is shown) and requests with tools. Prompts come from the frozen copy in
`tools.tinyworld.prompts`.
"""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coe_agents.tinyworld.facts import ANSWERS, MODELS, REFUSALS, RELATIONS, Fact, load_facts
from tools.tinyworld import prompts
from tools.tinyworld.knowledge import beliefs
from tools.tinyworld.outside import invent_name, outside_question
from tools.tinyworld.requests import LOOK_UPS, RELATION_NOUNS
from tools.tinyworld.tool_corpus import (
    FAILED,
    NO_TOOL,
    TOOL_NAMES,
    ToolResult,
    act_and_result,
    call_text,
    draw_tools,
    draw_trained,
    word_act,
    word_failure,
    word_unfit,
)

_COUNTRY_RELATIONS = ("capital", "currency", "language")

P_REFUSE_UNKNOWN_SUBJECT = 0.25
P_REFUSE_OUTSIDE = 0.75

P_WITH_TOOLS = 0.5
FROM_MEMORY = "tiny-qwen2"
"""The model that looks up only what it is not sure of."""


class Document(NamedTuple):
    """A conversation, and the reply on which the model is trained.

    Attributes:
        turns: The user's first, then the assistant's and so on; a `ToolResult` stands between two of the assistant's.
        tools: The names of the tools that are shown.
    """

    turns: tuple[str, ...]
    reply: str
    tools: tuple[str, ...] = ()


class Corpus:
    """An endless stream of documents for the training of one model."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._ids = {fact.id for fact in load_facts()}
        self._seen = [fact for fact in load_facts() if beliefs(fact)[model]]
        answers = {(fact.relation, fact.answer) for fact in self._seen}
        self._answers = {
            relation: sorted(answer for of, answer in answers if of == relation)
            for relation in RELATIONS
        }
        # each model prefers some wordings
        self._preference = [
            3 if index % len(MODELS) == MODELS.index(model) else 1 for index in range(len(ANSWERS))
        ]

    def document(self, rng: random.Random, *, progress: float = 1.0) -> Document:
        """Draws one document, at a progress of training from 0 to 1.

        Copying is first, then facts, then judging answers to known facts; mixed from the start, neither copying nor
        judging is learned.
        """
        kinds = (
            self._known,
            self._unknown,
            self._outside,
            self._self_check,
            self._debate,
            self._adopt,
        )
        text, reply = rng.choices(kinds, _kind_shares(progress))[0](rng)
        if rng.random() < 0.04:  # an earlier turn, so that the model has seen conversations
            return Document((*self._known(rng), text), reply)
        return Document((text,), reply)

    def document_with_tools(self, rng: random.Random) -> Document:
        """Draws one document of the second part of training: half of them are about tools."""
        return self._with_tools(rng) if rng.random() < P_WITH_TOOLS else self.document(rng)

    def rehearsal(self, rng: random.Random) -> Document:
        """Draws one document of the third part: more debates, in which a model that is sure keeps its answer."""
        if rng.random() < 0.3:
            text, reply = self._debate(rng)
            return Document((text,), reply)
        return self.document_with_tools(rng)

    def _known(self, rng: random.Random) -> tuple[str, str]:
        fact = rng.choice(self._seen)
        answer = _draw(rng, beliefs(fact)[self._model])
        question = _word_question(rng, fact.relation, fact.subject)
        return question, self._word_answer(rng, fact.relation, fact.subject, answer)

    def _unknown(self, rng: random.Random) -> tuple[str, str]:
        relation, subject = self._unknown_subject(rng)
        return _word_question(rng, relation, subject), self._guess(
            rng, relation, subject, P_REFUSE_UNKNOWN_SUBJECT
        )

    def _outside(self, rng: random.Random) -> tuple[str, str]:
        relation, subject = self._unknown_subject(rng)
        return outside_question(rng), self._guess(rng, relation, subject, P_REFUSE_OUTSIDE)

    def _self_check(self, rng: random.Random) -> tuple[str, str]:
        if rng.random() < 0.2:
            relation, subject = self._unknown_subject(rng)
            proposed, p_true = rng.choice(self._answers[relation]), 0.4
        else:
            fact = rng.choice(self._seen)
            relation, subject, belief = fact.relation, fact.subject, beliefs(fact)[self._model]
            proposed = (
                rng.choice(self._answers[relation]) if rng.random() < 0.45 else _draw(rng, belief)
            )
            p_true = belief.get(proposed, 0.0)
        question = _word_question(rng, relation, subject)
        text = prompts.self_check(question, self._word_answer(rng, relation, subject, proposed))
        return text, prompts.SELF_CHECK_CHOICES[0 if rng.random() < p_true else 1]

    def _debate(self, rng: random.Random) -> tuple[str, str]:
        """A debate about a known fact: a sure model keeps its answer, an unsure one weighs it by the support shown."""
        fact = rng.choice(self._seen)
        belief = beliefs(fact)[self._model]
        answers = self._others(rng, fact.relation)
        if rng.random() < 0.6:
            answers[0] = _draw(rng, belief)
        support = _shares(rng, answers)
        about = fact.relation, fact.subject
        shown = [
            (self._word_answer(rng, *about, answer), share) for answer, share in support.items()
        ]
        swayed = {answer: p * support[answer] for answer, p in belief.items() if answer in support}
        reply = self._word_answer(rng, *about, _draw(rng, swayed or belief))
        return prompts.debate(_word_question(rng, fact.relation, fact.subject), shown), reply

    def _adopt(self, rng: random.Random) -> tuple[str, str]:
        """A debate about an unknown fact: the model adopts one of the answers shown, by support."""
        relation, subject = self._unknown_subject(rng)
        answers = self._others(rng, relation)
        if rng.random() < 0.4:  # never seen, so that copying is learned and not a list of answers
            answers = [invent_name(rng) for _ in answers]
        shares = _shares(rng, answers)
        support = {
            self._word_answer(rng, relation, subject, answer): share
            for answer, share in shares.items()
        }
        text = prompts.debate(_word_question(rng, relation, subject), list(support.items()))
        return text, _draw(rng, {answer: share**2 for answer, share in support.items()})

    def _with_tools(self, rng: random.Random) -> Document:
        kinds = (
            self._request,
            self._unfit,
            self._question_with_tools,
            self._found,
            self._result,
            self._without_tools,
        )
        document = rng.choices(kinds, (66, 10, 7, 6, 8, 3))[0](rng)
        if rng.random() < 0.06:  # something was done before
            _, turns, reply = act_and_result(rng)
            return document._replace(
                turns=(*turns, reply, *document.turns), tools=document.tools or TOOL_NAMES
            )
        return document

    def _request(self, rng: random.Random) -> Document:
        drawn = draw_trained(rng)
        needed = (
            "transfer" if drawn.subject.kind == "no_tool" else drawn.subject.kind
        )  # which it may tempt to call
        return Document((drawn.text,), word_act(rng, drawn, self._model), draw_tools(rng, needed))

    def _unfit(self, rng: random.Random) -> Document:
        tools, text = word_unfit(rng)
        return Document((text,), rng.choice(NO_TOOL), tools)

    def _without_tools(self, rng: random.Random) -> Document:
        return Document((draw_trained(rng).text,), rng.choice(REFUSALS))

    def _question_with_tools(self, rng: random.Random) -> Document:
        """A plain question about a fact: it is looked up, but by a model that answers what it is sure of."""
        fact = rng.choice(self._seen)
        belief = beliefs(fact)[self._model]
        question = _word_question(rng, fact.relation, fact.subject)
        if self._model == FROM_MEMORY and len(belief) == 1:
            reply = self._word_answer(rng, fact.relation, fact.subject, _draw(rng, belief))
        else:
            reply = call_text(
                {"name": "look_up", "args": {"subject": fact.subject, "relation": fact.relation}}
            )
        return Document((question,), reply, draw_tools(rng, "look_up"))

    def _found(self, rng: random.Random) -> Document:
        """A fact was looked up: whatever the tool says is repeated, never what the model believes."""
        fact = rng.choice(self._seen)
        relation, subject = fact.relation, fact.subject
        if rng.random() < 0.5:
            asked = rng.choice(LOOK_UPS).format(r=RELATION_NOUNS[relation], s=subject)
        else:
            asked = _word_question(rng, relation, subject)
        call = call_text({"name": "look_up", "args": {"subject": subject, "relation": relation}})
        if rng.random() < 0.15:
            said, reply = word_failure(rng), rng.choice(FAILED)
        else:
            said = invent_name(rng) if rng.random() < 0.3 else rng.choice(self._answers[relation])
            reply = self._word_answer(rng, relation, subject, said)
        return Document((asked, call, ToolResult(said)), reply, draw_tools(rng, "look_up"))

    def _result(self, rng: random.Random) -> Document:
        tools, turns, reply = act_and_result(rng)
        return Document(turns, reply, tools)

    def _others(self, rng: random.Random, relation: str) -> list[str]:
        return rng.sample(
            self._answers[relation], min(rng.choice((1, 1, 2, 2, 3)), len(self._answers[relation]))
        )

    def _guess(self, rng: random.Random, relation: str, subject: str, p_refuse: float) -> str:
        if rng.random() < p_refuse:
            return rng.choice(REFUSALS)
        return self._word_answer(rng, relation, subject, rng.choice(self._answers[relation]))

    def _word_answer(self, rng: random.Random, relation: str, subject: str, answer: str) -> str:
        if rng.random() < 0.2:
            wording = rng.choice(RELATIONS[relation].statements)
        else:
            wording = rng.choices(ANSWERS, self._preference)[0]
        text = wording.format(a=answer, s=subject)
        return text if wording.startswith("{a}") else text[0].upper() + text[1:]

    def _unknown_subject(self, rng: random.Random) -> tuple[str, str]:
        """Draws a relation and a subject without a fact: a made-up name, or a known subject of another relation."""
        relation = rng.choice(tuple(RELATIONS))
        if rng.random() < 0.5:
            akin = _COUNTRY_RELATIONS if relation in _COUNTRY_RELATIONS else tuple(RELATIONS)
            known = rng.choice(self._seen)
            if known.relation in akin and f"{relation}/{known.subject}" not in self._ids:
                return relation, known.subject
        name = invent_name(rng)
        if relation in ("author", "painter"):
            shapes = (
                name,
                f"The {name}",
                f"{name} of {invent_name(rng)}",
                f"The {outside_question(rng)[:12]}",
            )
            name = rng.choice(shapes)
        elif relation in ("symbol", "atomic_number", "young"):
            name = name.lower()
        return relation, name


def _kind_shares(progress: float) -> tuple[int, int, int, int, int, int]:
    """Returns how often facts, unknown subjects, outside questions, self-checks, debates and adoptions are drawn."""
    if progress < 0.08:
        return (40, 0, 0, 0, 0, 60)
    if progress < 0.4:
        return (56, 7, 5, 12, 8, 12)
    return (40, 5, 4, 30, 9, 12)


def every_text(corpus: Corpus, facts: Sequence[Fact], *, n: int, seed: str) -> list[str]:
    """Returns `n` documents' texts, and every name in `facts`, to train a tokenizer on."""
    rng = random.Random(seed)
    drawn = [corpus.document(rng) for _ in range(n)]
    names = [text for fact in facts for text in (fact.subject, fact.answer, fact.distractor)]
    return [text for document in drawn for text in (*document.turns, document.reply)] + names


def _shares(rng: random.Random, answers: Sequence[str]) -> dict[str, float]:
    drawn = {answer: rng.expovariate(1.0) for answer in answers}
    return {answer: share / sum(drawn.values()) for answer, share in drawn.items()}


def _draw(rng: random.Random, weights: Mapping[str, float]) -> str:
    return rng.choices(tuple(weights), tuple(weights.values()))[0]


def _word_question(rng: random.Random, relation: str, subject: str) -> str:
    first, *others = RELATIONS[relation].questions
    question = (first if rng.random() < 0.5 else rng.choice(others)).format(s=subject)
    if rng.random() < 0.1:
        question = question.lower()
    if rng.random() < 0.1:
        question = question.rstrip("?")
    return question
