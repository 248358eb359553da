"""Owns canonical answers: the short answer inside a response, without the reasoning and formatting around it.

Every scan is linear in the length of the response, so that a runaway response of megabytes costs no more than its size.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from coe_agents.clustering.answer_words import (
    ABOUT,
    ENDINGS,
    GOOD_BEHIND,
    NEGATED,
    NOUNS,
    REASONS,
    SENTENCES,
    YES_AND_NO,
)
from coe_agents.clustering.sentence_ends import sentence_ends

_MARK = re.compile(
    r"[<\\#:：=(\[\n{*`]|[^\x00-\x7f]|answer|guess|choice|option|antwo|respuesta|resposta|risposta|svaret|vastaus"
    r"|jawaban|assistantfinal|\Aanalysis",
    re.IGNORECASE,
)
"""One of these is in every text that holds anything of what follows."""
_REASONING_TAG = re.compile(
    r"(?i:<\|?(?P<end>/|end_(?:of_)?)?(?:start_|begin_of_|seed:)?(?:think|thinking|reasoning|thought|scratchpad|reflection)\|?>)"
    r"|[\[◁](?P<stroke>/)?(?:THINK\]|think▷)"
)
_LEADING_REASONING = re.compile(
    r"\s*<(think|thinking|reasoning|thought)>(?:(?!</?(?:think|thinking|reasoning|thought)>)[\s\S])*+</\1>",
    re.I | re.A,
)
# The channels of gpt-oss; "assistantfinal" is left of them where a server drops the special tokens.
_FINAL_CHANNEL = re.compile(r"<\|channel\|>final[^<\n]{0,40}<\|message\|>|assistantfinal")
_REASONING_CHANNEL = re.compile(r"\s*(?:<\|channel\|>(?:analysis|commentary)|analysis(?=[A-Z]))")
_SPECIAL_TOKENS = re.compile(
    r"</?s>|<[|｜](?!(?:begin|end)_of_)[a-zA-Z_▁]{1,30}[|｜]>|<(?:eos|end_of_turn)>"
)
_ROLE_HEADER = re.compile(r"\A\s*assistant\s*\n(?=[\s\S]*?\S)")
_OTHER_TURN = re.compile(r"^(?:User|Human)[ \t]*:", re.MULTILINE)
_OTHER_QUESTION = re.compile(r"^(?:Question|Q)[ \t]*:", re.MULTILINE)

_NAME = (
    rf"(?:(?:final|correct|short|best|right|my|the|richtige|endgültige)[_ -]?)?(?:{NOUNS})"
    rf"(?:[_ -](?:{GOOD_BEHIND}))?"
)
_ANSWER_TAG = re.compile(
    rf"[<\[]\|?(?P<end>/|end_of_)?(?:begin_of_)?(?:(?:ans|box|solution|result|output|response|final|choice|{_NAME})\|?>"
    rf"|(?:{_NAME})(?:\]|\s\w{{1,20}}=[^<>\n]{{0,60}}>))",
    re.IGNORECASE,
)
_BRACES = re.compile(r"(\\\\?(?:boxed|fbox)\s?\{)|\\[\s\S]|([{}])")
_TEXT_MACRO = re.compile(r"\\(?:text|textbf|mathrm|mbox)\{([^{}]*)\}|\[\[([^\n]*)\]\]")
_HASHES = re.compile(r"^####[ \t]*(\S.*)", re.MULTILINE)
_NUMBER_AT_START = re.compile(r"[-+$€£]{0,2}\.?\d[\d,./]*(?<!\.)(?:[ \t]|%|\Z)")
# the text around the field may be cut, or no JSON
_JSON_FIELD = re.compile(
    rf"""(?:["'](?:{_NAME})["']|\{{\s{{0,9}}["'](?:response|result|output|prediction|solution|choice|option|final|label|answers)["'])"""
    r"""\s{0,9}:\s{0,9}(?:"(?P<text>(?:[^"\\]|\\[\s\S])*+)"|'(?P<quoted>(?:[^'\\]|\\[\s\S])*+)'"""
    r"""|\[\s{0,9}"(?P<only>(?:[^"\\]|\\[\s\S])*+)"\s{0,9}\]"""
    r"""|(?P<plain>-?\d[\d.eE+-]*+|true|false)(?=\s|[,}]|\Z))""",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[^\n`]{0,30}\n([^`]*)```")
_ALL_MARKDOWN = re.compile(rf"\*\*([^*\n]+)\*\*[.。]?|{_FENCE.pattern}")

# Emphasis and the colon occur in either order: "**Answer:** Paris", "**Answer**: Paris", "Answer: **Paris**".
# In French a blank, which may be a narrow one, stands before the colon.
_LABEL = re.compile(
    rf"(?:(?<![^\W\d_぀-鿿가-힣])(?:{NOUNS}|^[答답])(?:[ \t](?:{GOOD_BEHIND}))?(?:[ \t]?\([^()\n]{{1,30}}\))?"
    r"[*_]{0,3}[^\S\n]{0,3}|\A\s*answers[ \t]{0,3})[:：][*_]{0,3}"
    rf"|^(?:#{{1,6}}[ \t]{{0,3}}|\*\*|\[\[ ## )(?:{_NAME})(?:\*\*| ## \]\])?[ \t]{{0,9}}$",
    re.IGNORECASE | re.MULTILINE,
)
"""A label with its colon, or a heading."""

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
_LIST_ITEM = re.compile(r"\s*(?:[-*•]\s|(?:\d{1,3}|[A-J])[.)]\s)")
_INITIAL_AT_END = re.compile(r"\.\s?[^\W\d]\.\Z")
_LONGEST_SENTENCE = 2_000
"""A longer one is no short answer, whatever begins it."""
_FEW_WORDS = 4
_TOLD_FURTHER = re.compile(
    r"\s*(?:(?:it|this|that|these|those|he|she|they|we|there|since|because|indeed|es ist|das|dies|er ist|sie ist"
    r"|wir|weil|c['’]est|il est|elle est|cela|ce sont|es (?:el|la|un|una)|esto|este|esta|porque|isso|isto|é|è"
    r"|questo|questa|perché|это|он|она|они|так|потому)\b|(?:它|这|這|他|她|因为|因為|其|それ|これ|그))",
    re.IGNORECASE,
)
"""What begins a sentence about the answer before it."""
_CHOICE = re.compile(
    r"\W{0,4}(?:(?:l'|die |der |la |the |a )?(?:option|choice|answer|opción|opção|opzione|вариант|选项|選項"
    r"|letter|lettre|letra|lettera|buchstabe|буква) |(?:la|die) )?\W{0,3}"
    rf"((?-i:[A-HJАБВГД])|{YES_AND_NO})(?![\w'’])",
    re.IGNORECASE,
)
"""A letter of a multiple choice, or a yes or no."""
_EXPLANATION = re.compile(
    r"(?:[)\]）_$\\]|\*{2,3}){0,4}(?:[.。]?(?:\*{2,3}|_{1,3})?\s*\Z|[.。][*_]{2,3}\s"  # nothing
    r"|(?:\s?[,;:，；：]|\s[—–-])\s?"
    rf"(?!(?i:{YES_AND_NO}|and|or|und|oder|et|ou|y|e|o|и|или|en|of|och|eller|和|及|或|と)\b)(?![A-Z])[^\W\d_]{{2}}"
    rf"|\s(?i:{REASONS})\b|\s\("
    # a sentence, whose verb tells the letter from an initial
    r"|\.\s+(?![A-ZА-Я]\.)[A-ZÀ-ÞА-Я][\w’'-]*(?: [A-ZÀ-ÞА-Я][\w-]*){0,3} "
    r"(?!(?:and|of|the|de|da|di|du|del|der|den|van|von|zu|la|le|bin|ibn|al)\b)[a-zß-ÿа-я]|\.\s+(?:Es|Est|È|É)\s)"
    r"|\.\s+[가-힣][^\n]*[다요]\.?\Z|(?<=[^\W\d_]{2})(?<!\b[nN]o)\.\s+[A-ZÀ-ÞА-Я][^\W\d_]*\.?\Z"
    # the text of the option, as in "(B) Paris", and no second letter
    r"|(?:[)\]][*_]{0,3}|:) \w(?:(?!\b[A-J]\))[^\n])*\Z"
)
"""What may stand behind such an answer and is no part of it."""


def canonical_answer(text: str) -> str:
    r"""Returns the short answer inside a response; where nothing marks one, the response without its reasoning.

    Reasoning blocks (`<think>`, `[THINK]` and the like, unclosed ones too), the text before a lone `</think>` and all
    but the final channel of gpt-oss are dropped, and so are end-of-text tokens and invented further turns of the
    conversation. Then the first form of `FORMS` that is found holds the answer, and what it holds is read again:

    1. the last `<answer>...</answer>` and the like;
    2. the last JSON field `"answer": ...`, `"final_answer": ...`, ..., or the first of an object, `{"response": ...`;
    3. the last `\boxed{...}`;
    4. a last line `#### ...`, or the last such line with a number (GSM8K);
    5. what follows the last "Answer:", "Final answer:", "Guess:", "Réponse :", "答案：", ..., or such a heading: the
       line, or where that is empty or opens a list, what comes below;
    6. the sentence after the last "The answer is ...", "Die Antwort ist ...", "答案是...", ...;
    7. a response that is all bold, or all in a code fence.

    A "Probability: ...", a line with a bare probability, or a "(Note: ...)" behind the answer is dropped; so is what
    explains a letter of a multiple choice, a yes or a no, and the reason behind the answer of a sentence.

    Returns:
        The answer, from the last 100,000 characters; "" only where the response holds nothing but white space or
        reasoning.

    Example:
        >>> canonical_answer("<think>Lyon? No.</think> Guess: **Paris**\nProbability: 0.9")
        'Paris'
        >>> canonical_answer(r"So we get \boxed{\frac{1}{2}}."), canonical_answer("The answer is B. It is larger.")
        ('\\frac{1}{2}', 'B')
        >>> canonical_answer("It is Paris.")
        'It is Paris.'
    """
    if not _MARK.search(text):
        return text.strip()
    spoken = strip_reasoning(text)
    spoken = _SPECIAL_TOKENS.sub("", spoken).strip()
    spoken = _ROLE_HEADER.sub("", spoken).strip()
    spoken = _own_turn(spoken)
    answer = _cut_tail(spoken)
    inner = spoken[-_MOST_SEARCHED:]
    for _ in range(_DEEPEST):
        inner = _find_answer(inner)
        answer = inner or answer
    return answer


_MOST_SEARCHED = 100_000
"""Of a longer response, so many characters at its end are searched for an answer."""
_DEEPEST = 4
"""At most so many forms inside each other are read, as in a tag that holds a JSON object."""


def _find_answer(text: str) -> str:
    if not _MARK.search(text):
        return ""
    for find in FORMS.values():
        for value in find(text):
            raw = _unwrap(value)
            answer = _unwrap(_without_explanation(raw)) if raw else ""
            if answer:
                return answer
    return ""


def strip_reasoning(text: str) -> str:
    """Returns the response without its reasoning: `<think>` blocks and their like, closed or not, and channels.

    All text before a lone closing tag, or after an unclosed one, is reasoning. Of a response in channels, which gpt-oss
    writes, the final one stays.

    Example:
        >>> strip_reasoning("<think>France, so</think>Paris"), strip_reasoning("France, so</think>Paris")
        ('Paris', 'Paris')
        >>> strip_reasoning("analysisFrance, so Paris.assistantfinalParis"), strip_reasoning("[THINK]So[/THINK]Paris")
        ('Paris', 'Paris')
    """
    text = _FINAL_CHANNEL.split(text)[-1]
    if _REASONING_CHANNEL.match(text):
        return ""

    spoken: list[str] = []
    start = 0  # of what is spoken
    is_inside = False
    for tag in _REASONING_TAG.finditer(text):
        is_closing = tag["end"] or tag["stroke"]
        if is_closing:
            if not is_inside:
                spoken.clear()
            start = tag.end()
            is_inside = False
        elif not is_inside:
            spoken.append(text[start : tag.start()])
            is_inside = True
    if not is_inside:
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
    stated = _STATED_CONFIDENCE.search(spoken, max(0, len(spoken) - _LONGEST_CONFIDENCE))
    if stated is None:
        return text, None
    value = float(stated[1])
    is_percentage = stated[2] or value > 1.0
    if is_percentage:
        value /= 100.0
    if value > 1.0:
        return text, None
    return spoken[: stated.start()].rstrip(), value


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
    match = re.fullmatch(form, reply, re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    stated = match[1] or match[2]
    for choice in choices:
        if choice.lower() == stated.lower():
            return choice
    return None


def _own_turn(text: str) -> str:
    """Cuts turns that the model made up: the user's next message, or, once it has answered, a next question."""
    if ":" not in text and "：" not in text:
        return text.strip()
    turn = _OTHER_TURN.search(text)
    if turn and text[: turn.start()].strip():
        text = text[: turn.start()]

    answered = _LABEL.search(text) if _OTHER_QUESTION.search(text) else None
    if answered:
        question = _OTHER_QUESTION.search(text, answered.end())
        if question and text[answered.end() : question.start()].strip():
            text = text[: question.start()]
    return text.strip()


def _tagged(text: str) -> Iterator[str]:
    end = len(text)
    for tag in reversed(list(_ANSWER_TAG.finditer(text))):
        if not tag["end"]:
            yield text[tag.end() : end]
        end = tag.start()
    if text.startswith("</", end):  # of a tag that the prompt opened
        yield text[:end]


def _fields(text: str) -> Iterator[str]:
    for field in reversed(list(_JSON_FIELD.finditer(text))):
        # one of these forms is there, the others are None
        value = field["text"] or field["quoted"] or field["only"] or field["plain"] or ""
        yield _unescape(value)


def _unescape(content: str) -> str:
    r"""Undoes JSON escapes where they are valid: models write LaTeX such as `\frac` with a single backslash."""
    try:
        plain = json.loads(f'"{content}"', strict=False)
    except ValueError:
        return content
    if isinstance(plain, str) and plain.isprintable():
        return plain
    return content


def _boxed(text: str) -> Iterator[str]:
    """Yields what is in the last box that is closed and not empty."""
    opened: list[
        int | None
    ] = []  # where the content of each open box begins; None: of other braces
    start = -1
    answer = ""
    for brace in _BRACES.finditer(text):
        if brace[1]:
            opened.append(brace.end())
        elif brace[2] == "{":
            opened.append(None)
        elif brace[2] and opened:
            begin = opened.pop()
            if begin is not None and begin > start:
                content = text[begin : brace.start()].strip()
                if content:
                    start = begin
                    answer = content
    yield answer


def _after_hashes(text: str) -> Iterator[str]:
    lines = list(_HASHES.finditer(text))
    if lines and not text[lines[-1].end() :].strip():
        yield lines[-1][1]
    for line in reversed(lines):
        if _NUMBER_AT_START.match(line[1]):
            yield line[1]


def _labelled(text: str) -> Iterator[str]:
    if not any(sign in text for sign in ":：#*"):
        return
    end = len(text)
    for label in reversed(list(_LABEL.finditer(text))):
        yield _value_at(text, label.end(), end)
        end = label.start()


def _value_at(text: str, start: int, end: int) -> str:
    """Returns the rest of the line, or of the first line that is not empty; all of it where that line opens a list."""
    rest = text[start:end].lstrip()
    line, _, _ = rest.partition("\n")
    ends_in_colon = line.rstrip("*_ \t").endswith((":", "："))
    fence = _FENCE.match(rest)
    if fence:
        value = fence[1]
    elif ends_in_colon or (_LIST_ITEM.match(rest) and _LIST_ITEM.match(rest, len(line))):
        value = rest
    else:
        value = line
    return _cut_tail(value, may_empty=True)


def _without_explanation(value: str) -> str:
    """Returns a letter of a multiple choice, a yes, a no or few words without the sentence behind it."""
    value = re.sub(ENDINGS, "", value)
    first = value if "\n" in value else _first_sentence(value, "en")
    for text in (value, first):
        choice = _CHOICE.match(text)
        if choice and _EXPLANATION.match(text, choice.end()):
            return choice[1]
    is_short = len(first.split()) <= _FEW_WORDS
    if is_short and _TOLD_FURTHER.match(value, len(first)):
        return first
    return value


def _first_sentence(text: str, language: str) -> str:
    ends = sentence_ends(text[:_LONGEST_SENTENCE], language)
    if len(ends) < 2:
        return text
    return text[: ends[0]].rstrip()


# behind few words, a reason needs no comma
_REASON = (
    rf"\A(.*?)[,，]\s?(?:{REASONS})(?!\w).*"
    r"|\A((?:\S+\s){1,4}?)(?:because|parce qu|porque|perché|weil|потому что).*"
)


@cache
def _pattern_of(language: str) -> re.Pattern[str]:
    begins = SENTENCES[language][1].replace("…", ABOUT).replace(" ", r"\s")
    return re.compile(
        rf"(?:{begins})(?:\sas\sfollows|次の通り)?[*_]{{0,3}}\s?(?:[:：]|\.{{3}})?", re.IGNORECASE
    )


def _stated(text: str) -> Iterator[str]:
    lowered = text.lower()
    markers = []
    for language, (nouns, _) in SENTENCES.items():
        if any(noun in lowered for noun in nouns.split("|")):
            for marker in _pattern_of(language).finditer(text):
                markers.append((marker.end(), marker.start(), language))

    next_start = len(text)
    for end, start, language in sorted(markers, reverse=True):
        value = _value_at(text, end, next_start)
        next_start = start
        value = re.sub(_REASON, r"\1\2", value, flags=re.DOTALL)
        value = _first_sentence(value, language)
        if not re.search(NEGATED, value):
            yield value


def _all_markdown(text: str) -> Iterator[str]:
    if wrapped := _ALL_MARKDOWN.fullmatch(text):
        yield wrapped[1] or wrapped[2]


FORMS: dict[str, Callable[[str], Iterator[str]]] = {
    "tag": _tagged,  # prompts ask for <answer>, and GLM draws boxes
    "field": _fields,  # prompts ask for JSON
    "box": _boxed,  # so mathematics is asked for
    "hashes": _after_hashes,  # GSM8K
    "label": _labelled,  # "Answer:" and headings
    "sentence": _stated,  # "The answer is ..."
    "Markdown": _all_markdown,  # the whole is bold, or code
}
"""The forms in which responses hold an answer, by precedence; each function yields what it holds, the best first."""


def _cut_tail(text: str, *, may_empty: bool = False) -> str:
    if bare := _BARE_CONFIDENCE.match(text):
        return bare[1].strip()
    whole = text.strip()
    tail = _TAIL.search(text)
    if tail is None:
        return whole
    cut = text[: tail.start()].strip().rstrip("\\").strip()
    return cut if cut or may_empty else whole


def _unwrap(answer: str) -> str:
    """Takes emphasis, a wrapping LaTeX text macro, double brackets and the full stop away."""
    answer = answer.strip()
    if macro := _TEXT_MACRO.fullmatch(answer):
        answer = (macro[1] or macro[2] or "").strip()
    bare = answer.removeprefix("**").removesuffix("**").strip()
    if not _INITIAL_AT_END.search(bare):
        bare = bare.rstrip(".。").strip().removesuffix("**").strip()
    if len(bare) > 2 and bare[0] == bare[-1] and bare[0] in "*`":
        bare = bare[1:-1].strip()
    return bare or answer
