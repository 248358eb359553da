"""Owns canonical answers: the short answer inside a response, without the reasoning and formatting around it.

Every scan is linear in the length of the response, so that a runaway response of megabytes costs no more than its size.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Sequence

_MARK = re.compile(r"[<\\#:：=(\[\n]|answer|guess", re.IGNORECASE)
"""One of these is in every text that holds anything of what follows."""
_REASONING_TAG = re.compile(r"<(/?)(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_LEADING_REASONING = re.compile(
    r"\s*<(think|thinking|reasoning|thought)>(?:(?!</?(?:think|thinking|reasoning|thought)>)[\s\S])*+</\1>",
    re.I | re.A,
)
_SPECIAL_TOKENS = re.compile(r"</s>|<\|[a-zA-Z_]{1,30}\|>|<(?:eos|end_of_turn)>")
_ROLE_HEADER = re.compile(r"\A\s*assistant\s*\n(?=[\s\S]*?\S)")
_OTHER_TURN = re.compile(r"^(?:User|Human)[ \t]*:", re.MULTILINE)
_OTHER_QUESTION = re.compile(r"^(?:Question|Q)[ \t]*:", re.MULTILINE)

_BRACES = re.compile(r"(\\\\?(?:boxed|fbox)\s?\{)|\\[\s\S]|([{}])")
_TEXT_MACRO = re.compile(r"\\(?:text|textbf|mathrm|mbox)\{([^{}]*)\}")
_HASHES = re.compile(r"^####[ \t]*(\S.*)", re.MULTILINE)
_NUMBER_AT_START = re.compile(r"[-+$€£]{0,2}\.?\d[\d,./]*(?<!\.)(?:[ \t]|%|\Z)")
_JSON_FIELD = re.compile(
    r'"answer"\s{0,9}:\s{0,9}(?:"((?:[^"\\]|\\[\s\S])*+)"|(-?\d[\d.eE+-]*+|true|false)(?=\s|[,}]|\Z))'
)

_NOUN = (
    r"(?:answer|guess|conclusion|réponse|reponse|respuesta|antwort|risposta|resposta|ответ)"
    r"|(?:最终)?答案|答え|回答|정답"
)
# Emphasis and the colon occur in either order: "**Answer:** Paris", "**Answer**: Paris", "Answer: **Paris**".
_COLON_MARKER = re.compile(
    rf"(?<![^\W\d_])(?:{_NOUN})[*_]{{0,3}}[ \t]{{0,3}}[:：][*_]{{0,3}}", re.IGNORECASE
)
_PLURAL_MARKER = re.compile(r"\A\s*answers?[ \t]{0,3}[:：]", re.IGNORECASE)
_HEADING_MARKER = re.compile(
    r"^(?:#{1,6}[ \t]{0,3}|\*\*)(?:final )?answer(?:\*\*)?[ \t]{0,9}$", re.IGNORECASE | re.MULTILINE
)
_SENTENCE_MARKER = re.compile(
    r"\b(?:the|my)\s(?:(?:final|correct|short|best|right)\s){0,2}(?:answer|guess)"
    r"(?:\s(?:to|for)\s[^.:\n]{1,80}?)?\s(?:is|was|would\sbe)\b(?!\snot\b)\s?[:：]?",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(
    r"(?<!\b[A-Za-z])(?<!\b(?:St|Dr|Mr|Ms|Jr|Sr|Mt|Ft|No|vs|Lt))(?<!\b(?:Mrs|Gen|Col|Rev|Sgt))(?<!\bProf)"
    r"[.!?]+(?=[\s\"'”’)*]|\Z)|。"
)
"""The end of a sentence, but not of an abbreviation or an initial."""

# What follows an answer and is not part of it: a stated confidence, or a note.
_TAIL = re.compile(
    r"(?:[(\[][ \t]{0,3})?(?:\b(?:Probability|Confidence)|概率)[*_]{0,3}[ \t]{0,3}[:：=]"
    r"|[(\[][ \t]{0,3}(?:Note|Explanation)\b",
    re.IGNORECASE,
)
_BARE_CONFIDENCE = re.compile(
    r"([^\n]{1,100}?)(?<![:：=])(?<!\bis)[ \t]*\n\s*(?:0?\.\d{1,4}|1\.0)\s*\Z"
)
_LONGEST_CONFIDENCE = 100
_STATED_CONFIDENCE = re.compile(
    r"(?:\A|\n|(?<=[.,;!?])[ \t]|[ \t](?=[(\[]))[ \t]*[(\[*_]{0,4}confidence[*_]{0,3}[ \t]{0,3}[:=][*_ \t]{0,6}"
    r"(\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})[ \t]?(%?)[*_]{0,3}[)\]]?\.?[*_]{0,3}\Z",
    re.IGNORECASE | re.ASCII,
)
_LIST_ITEM = re.compile(r"\s*(?:[-*•]\s|\d{1,3}[.)]\s)")
_INITIAL_AT_END = re.compile(r"\.\s?\w\.\Z")


def canonical_answer(text: str) -> str:
    r"""Returns the short answer inside a response; where nothing marks one, the response without its reasoning.

    Reasoning blocks (`<think>` and the like, unclosed ones too) and the text before a lone `</think>` are dropped,
    and so are end-of-text tokens and invented further turns of the conversation. Then the first of these that is found:

    1. the last JSON field `"answer": ...`;
    2. the last `\boxed{...}`;
    3. a last line `#### ...`, or the last such line with a number (GSM8K);
    4. what follows the last "Answer:", "Final answer:", "Guess:", "Réponse :", "答案：", ..., or such a heading: the
       line, or where that is empty or opens a list, what comes below;
    5. the sentence after the last "The answer is ...".

    A "Probability: ...", a line with a bare probability, or a "(Note: ...)" behind the answer is dropped.

    Returns:
        The answer; "" only where the response holds nothing but white space or reasoning.

    Example:
        >>> canonical_answer("<think>Lyon? No.</think> Guess: **Paris**\nProbability: 0.9")
        'Paris'
        >>> canonical_answer(r"So we get \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
        >>> canonical_answer("It is Paris.")
        'It is Paris.'
    """
    if not _MARK.search(text):
        return text.strip()
    spoken = _SPECIAL_TOKENS.sub("", strip_reasoning(text)) if "<" in text else text.strip()
    spoken = _ROLE_HEADER.sub("", spoken).strip()
    spoken = _own_turn(spoken)
    for find, needed in _FORMS:
        if needed in spoken and (raw := find(spoken)) and (found := _unwrap(raw)):
            return found
    return _cut_tail(spoken)


def strip_reasoning(text: str) -> str:
    """Returns the response without its `<think>` blocks, be they closed or not.

    All text before a lone closing tag, or after an unclosed one, is reasoning.

    Example:
        >>> strip_reasoning("<think>France, so</think>Paris"), strip_reasoning("France, so</think>Paris")
        ('Paris', 'Paris')
    """
    spoken: list[str] = []
    start, inside = 0, False
    for tag in _REASONING_TAG.finditer(text):
        if tag[1]:
            if not inside:
                spoken.clear()
            start, inside = tag.end(), False
        elif not inside:
            spoken.append(text[start : tag.start()])
            inside = True
    if not inside:
        spoken.append(text[start:])
    return "".join(spoken).strip()


def split_confidence(text: str) -> tuple[str, float | None]:
    r"""Returns a reply without the confidence that it ends in, and that confidence, in [0, 1]; None where it has none.

    The reply must end in "Confidence: " and a number, on a line of its own or after a stop, a comma, a semicolon or a
    bracket. With "%", or above 1, it is a percentage. Any other ending, a number above 100 among them, states none, and
    the reply stays as it is. Only the last 100 characters are read.

    Example:
        >>> split_confidence("Paris\nConfidence: 0.9"), split_confidence("Paris. **Confidence:** 90%")
        (('Paris', 0.9), ('Paris.', 0.9))
        >>> split_confidence("My confidence: high"), split_confidence("Confidence: 0.9, so Paris")
        (('My confidence: high', None), ('Confidence: 0.9, so Paris', None))
    """
    spoken = text.rstrip()
    found = _STATED_CONFIDENCE.search(spoken, max(0, len(spoken) - _LONGEST_CONFIDENCE))
    if found is None:
        return text, None
    value = float(found[1])
    value = value / 100.0 if found[2] or value > 1.0 else value
    return (spoken[: found.start()].rstrip(), value) if value <= 1.0 else (text, None)


def parse_choice(text: str, choices: Sequence[str]) -> str | None:
    """Returns the choice that a reply consists of, or None where it holds anything else.

    The whole reply, behind at most one `<think>` block that opens it and is closed, must be the choice in any case,
    with white space around it and at most one full stop; or a JSON object whose only field, "verdict" or "decision", is
    the choice. Nothing is searched for: a choice that a reply quotes, negates or makes conditional does not count.

    Example:
        >>> [parse_choice(reply, ("approve", "reject")) for reply in (" Approve.", '{"verdict": "reject"}')]
        ['approve', 'reject']
        >>> [parse_choice(reply, ("approve", "reject")) for reply in ("Approve it.", '{"approve": true}')]
        [None, None]
    """
    block = _LEADING_REASONING.match(text)
    reply = text[block.end() :] if block else text
    words = "|".join(map(re.escape, choices))
    # ASCII alone: case folding would let other letters pass for these
    form = rf'\s*(?:({words})\.?|\{{\s*"(?:verdict|decision)"\s*:\s*"({words})"\s*\}})\s*'
    found = re.fullmatch(form, reply, re.IGNORECASE | re.ASCII)
    stated = (found[1] or found[2]).lower() if found else None
    return next((choice for choice in choices if choice.lower() == stated), None)


def _own_turn(text: str) -> str:
    """Cuts turns that the model made up: the user's next message, or, once it has answered, a next question."""
    if ":" not in text and "：" not in text:
        return text.strip()
    turn = _OTHER_TURN.search(text)
    if turn and text[: turn.start()].strip():
        text = text[: turn.start()]
    if answered := _COLON_MARKER.search(text):
        question = _OTHER_QUESTION.search(text, answered.end())
        if question and text[answered.end() : question.start()].strip():
            text = text[: question.start()]
    return text.strip()


def _boxed(text: str) -> str:
    opened: list[int | None] = []
    start, answer = -1, ""
    for brace in _BRACES.finditer(text):
        if brace[1]:
            opened.append(brace.end())
        elif brace[2] == "{":
            opened.append(None)
        elif brace[2] and opened:
            begin = opened.pop()
            if begin is not None and begin > start:
                content = text[begin : brace.start()].strip()
                start, answer = (begin, content) if content else (start, answer)
    return answer


def _after_hashes(text: str) -> str:
    lines = list(_HASHES.finditer(text))
    if lines and not text[lines[-1].end() :].strip():
        return lines[-1][1]
    return next((line[1] for line in reversed(lines) if _NUMBER_AT_START.match(line[1])), "")


def _json_field(text: str) -> str:
    answer = ""
    for field in _JSON_FIELD.finditer(text):
        answer = _unescape(field[1]) if field[1] is not None else field[2]
    return _boxed(answer) or answer


def _unescape(content: str) -> str:
    r"""Undoes JSON escapes where they are valid: models write LaTeX such as `\frac` with a single backslash."""
    try:
        plain = json.loads(f'"{content}"', strict=False)
    except ValueError:
        return content
    return plain if isinstance(plain, str) and plain.isprintable() else content


def _after_marker(text: str) -> str:
    has_colon, has_heading = ":" in text or "：" in text, "#" in text or "**" in text
    possible = (
        (_COLON_MARKER, has_colon),
        (_HEADING_MARKER, has_heading),
        (_PLURAL_MARKER, has_colon),
    )
    markers = [
        marker
        for pattern, is_possible in possible
        if is_possible
        for marker in pattern.finditer(text)
    ]
    end = len(text)
    for marker in sorted(markers, key=re.Match.end, reverse=True):
        if value := _value_at(text, marker.end(), end):
            return value
        end = marker.start()
    return ""


def _value_at(text: str, start: int, end: int) -> str:
    """Returns the rest of the line, or of the first line that is not empty; all of it where that line opens a list."""
    rest = text[start:end].lstrip()
    line = rest.partition("\n")[0]
    if line.rstrip("*_ \t").endswith((":", "：")) or (
        _LIST_ITEM.match(rest) and _LIST_ITEM.match(rest, len(line))
    ):
        line = rest
    return _cut_tail(line, may_empty=True)


def _after_sentence_marker(text: str) -> str:
    last = deque(_SENTENCE_MARKER.finditer(text), maxlen=1)
    if not last:
        return ""
    line = text[last[0].end() :].lstrip().partition("\n")[0]
    end = SENTENCE_END.search(line)
    return _cut_tail(line[: end.start()] if end else line, may_empty=True)


_FORMS: tuple[tuple[Callable[[str], str], str], ...] = (
    (_json_field, '"answer"'),
    (_boxed, "box"),
    (_after_hashes, "####"),
    (_after_marker, ""),
    (_after_sentence_marker, ""),
)
"""How each form of an answer is found, in order, and what a text that has it contains."""


def _cut_tail(text: str, *, may_empty: bool = False) -> str:
    if bare := _BARE_CONFIDENCE.match(text):
        return bare[1].strip()
    tail = _TAIL.search(text)
    cut = text[: tail.start()].strip().rstrip("\\").strip() if tail else text.strip()
    return cut if cut or may_empty else text.strip()


def _unwrap(answer: str) -> str:
    """Takes emphasis, a wrapping LaTeX text macro and the full stop away."""
    answer = answer.strip()
    if macro := _TEXT_MACRO.fullmatch(answer):
        answer = macro[1].strip()
    bare = answer.removeprefix("**").removesuffix("**").strip()
    if not _INITIAL_AT_END.search(bare):
        bare = bare.rstrip(".。").strip().removesuffix("**").strip()
    if len(bare) > 2 and bare[0] == bare[-1] and bare[0] in "*`":
        bare = bare[1:-1].strip()
    return bare or answer
