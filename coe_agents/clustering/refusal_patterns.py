"""Owns the wordings by which models decline: data for `refusals`, patterns that a whole lower-case clause must match.

In a pattern `<name>` stands for a group of words in `_WORDS`, and `...` at its end for anything that follows.
They are compiled when first used, since that takes longer than importing this package.
"""

import re
from functools import cache

STOCK_PHRASES = frozenset(
    phrase.strip()
    for line in """
    unknown | unknown answer | answer unknown | the answer is unknown | the answer is not known | not known
    n/a | no answer | no answer available | no answer found | i have no answer | unanswerable | not answerable
    not applicable | no idea | idk | not sure | unsure | uncertain | don't know | do not know | no comment
    not available | not provided | not specified | not found | none provided | unspecified | undetermined
    indeterminate | not enough information | insufficient information | no information
    no information available | no data | information not available | insufficient data | no data available
    cannot answer | can't answer | cannot be answered | cannot be determined | can't be determined
    it cannot be determined | cannot determine | can't determine | cannot say | can't say | unable to answer
    unable to determine | i cannot | i can't | refuse to answer | i refuse to answer | i decline to answer
    je ne sais pas | je l'ignore | aucune idée | no lo sé | no sé | ich weiß es nicht | ich weiß nicht
    keine ahnung | non lo so | não sei | eu não sei | не знаю | я не знаю | ik weet het niet | nie wiem
    bilmiyorum | 我不知道 | 不知道 | 无法回答 | 無法回答 | わかりません | 分かりません | 知りません
    모르겠습니다 | لا أعرف | मुझे नहीं पता
    """.strip().splitlines()
    for phrase in line.split("|")
)

MAY_DECLINE = re.compile(
    r"n(?:ot\b|'t\b|o\b|/a|one)|idk|un(?:able|sure|certain|known|specified|answerable|determined|clear)|in(?:sufficient|determinate"
    r"|complete)|impossible|without|need|require|refuse|decline|je |keine|niet|nie |bilmiyorum|non "
)
"""One of these is in every clause in ASCII that is a stock phrase or matches `refusal`; searching them takes little."""

_WORDS = {
    "i_am": r"(?:i'm|i am)",
    "cannot": r"(?:can ?not|can't|could ?not|couldn't|<be> (?:unable|not able) to)",
    "be": r"(?:am|was|'m)",
    "do_not": r"(?:do not|don't|does not|doesn't|did not|didn't)",
    "really": r"(?:(?:really|honestly|simply|just|actually|currently|entirely|quite|exactly) )?",
    "wh": r"(?:who|whom|whose|what|which|when|where|why|how|if|whether)",
    "which": r"(?:[\w-]+ ){0,4}?",
    "knowledge": r"(?:information|info|access|data|knowledge|details?|context|answers?|idea|clue|opinions?|beliefs?"
    r"|preferences?|experiences?|feelings?|capabilit(?:y|ies)|records?)",
    "information": r"(?:information|info|context|data|details?|answer)",
    "too_little": r"(?:insufficient|(?:not|no)(?: enough| sufficient| available| specific)?)",
    "answer": r"(?:answer|provide|determine|verify|confirm|predict|access|identify|locate|ascertain|browse|fulfill"
    r"|comply|disclose|share|offer|discuss|recall|guess|perform|accurately|definitively|directly|say (?:for|with|who))",
    "given": r"(?:specified|provided|mentioned|stated|given|available)",
    "source": r"(?:question|passage|text|context|statement|information)",
    "ai": r"an? (?:(?:large|text-based|ai|artificial|language|computer) )*(?:ai|model|assistant|intelligence|program)",
    "look": r"(?:check|visit|consult|search|look|refer|contact|reach out|find|follow|try|verify|ask)",
    "help": r"(?:be )?(?:able|happy|glad|try|do my best|help|assist|provide|answer)",
}

_REFUSALS = r"""
i <really><do_not> <really>know
i <really><do_not> <really>know (?:for sure|for certain|yet|exactly)
i <really><do_not> <really>know (?:anything about|about|of any|enough|the|that|this|<wh>)...
<i_am> (?:not <really>(?:sure|certain)|unsure|uncertain)
<i_am> (?:not <really>(?:sure|certain)|unsure|uncertain) (?:about|of|the answer|<wh>)...
<i_am> not (?:aware|familiar)
<i_am> not (?:aware|familiar) (?:of|with|who|what|that)...
i ?<cannot> <answer>...
i ?<cannot> (?:give|tell) (?:you )?(?:an?|the|that|this|any|specific|exact|accurate|information|who|what|when|where)...
i ?<cannot> find (?:an?|any|the|specific|information|relevant|reliable|evidence)...
i ?<cannot> (?:help|assist)
i ?<cannot> (?:help|assist) (?:you|with)...
unable to (?:answer|provide|determine|verify|confirm|find)...
i <do_not> <really>have <which><knowledge>...
i (?:have|had) (?:no|insufficient|not enough) (?:<knowledge>|way of)...
(?:and )?<do_not> have <which><knowledge>...
i (?:would )?(?:need|require) <which>(?:<information>|specific\w*)...
there(?:'s| is| was) <too_little> <information>
there(?:'s| is| was) <too_little> <information> (?:<given>|about|on|in|to|for)...
there (?:isn't|wasn't) (?:enough|sufficient|any) <information>...
<too_little> <information> (?:(?:is|was|are|has been) )?(?:<given>|to <answer>)...
(?:unknown|(?:can ?not|can't) (?:be determined|determine|answer)) without...
it(?:'s| is) not <given> (?:<wh>|in)...
(?:the|this|your) question (?:is|seems to be|seems) (?:incomplete|unclear)...
(?:the|this|your) question (?:<cannot>|cannot|can't) be answered...
you (?:have not|haven't|did not|didn't) (?:provided?|specif(?:y|ied)|given?|listed|mention(?:ed)?)...
(?:the|this) (?:answer|information|name|exact date) (?:is|was) not <given>...
it(?:'s| is) (?:not possible|impossible) (?:for me )?to (?:say|know|give|tell|<answer>)...
without .{1,150}? (?:i <cannot>|it(?:'s| is) (?:impossible|not possible|difficult))...
(?:the|this|your) (?:given |provided )?<source>(?: given| provided)? <do_not> (?:provide|specify|mention|state|give)...
.{1,200} (?:is|are|was|were) not <given> in the (?:given |provided )?<source>...
"""

_FILLERS = r"""
<i_am> (?:(?:very|so|really|truly|terribly) )?sorry
<i_am> (?:(?:very|so|really|truly|terribly) )?sorry (?:about|for)...
sorry(?: about that)?|unfortunately|my mistake
(?:my )?apologies...
i apologi[sz]e...
(?:so )?(?:please|kindly) (?:provide|specify|clarify|rephrase|let me know|give|see|<look>)...
(?:can|could|would) you (?:please |kindly )*(?:provide|specify|clarify|rephrase|tell me|give me|share|be more|check)...
you (?:can|could|may|might|should|(?:would|will|'d) need to) .{0,60}?\b<look>...
i (?:would |'d )?(?:recommend|suggest) .{0,60}?\b<look>...
it (?:is|would be|'s) (?:best|recommended|better) .{0,60}?\b<look>...
to (?:find|get|know|determine|answer|obtain|learn|check|see)\b.{1,150}?\b(?:recommend|suggest|please|<look>)...
(?:can|may|how can) i (?:help|assist)...
is there (?:anything|something) else...
let me know...
let's try a different topic
thank you...
if you .{1,150}?\b(?:i (?:will|can|could|would|may) ?<help>|i'(?:ll|d) <help>|let me know|please|feel free|happy to)...
i (?:can|could|would|will|'ll|'d) (?:gladly |try to |be happy to |be glad to |be able to )*(?:help|assist)...
i'(?:ll|d) be (?:happy|glad) to...
my (?:knowledge|training)(?: data)? (?:cut-?off|cut off|only)...
<i_am> (?:just |only )?<ai>...
as <ai>
"""

_OPENINGS = r"""
<i_am> (?:(?:very|so|really) )?sorry|sorry|apologies|i apologi[sz]e|unfortunately|my mistake
therefore|thus|so|hence|consequently|additionally|also|as such|and|well|currently|at this time|oh|hmm|um
as <ai>(?: developed by \w+)?
as of my [^,]{1,60}
"""

_HEDGED_ANSWER = r"""
[;—–:]
\b(?:maybe|perhaps|probably|possibly|might be|could be|must be|according to|my (?:best )?guess|i(?:'d| would) say)\b
\bi (?:think|believe|guess|suspect|assume)\b
"""


@cache
def refusal() -> re.Pattern[str]:
    """Returns the pattern of a clause that declines."""
    return re.compile(_written_out(_REFUSALS))


@cache
def filler() -> re.Pattern[str]:
    """Returns that of a clause that neither answers nor declines: an apology, a request for more, a referral."""
    return re.compile(_written_out(_FILLERS))


@cache
def opening_pattern() -> re.Pattern[str]:
    """Returns that of what may precede the clause proper."""
    return re.compile(rf"(?:{_written_out(_OPENINGS)})(?:,| -|:)? ")


@cache
def hedged_answer() -> re.Pattern[str]:
    """Returns that of where the tail of a declining clause may hide an answer or a guess."""
    return re.compile(_written_out(_HEDGED_ANSWER))


def _written_out(lines: str) -> str:
    """Returns one alternative per line, `<name>` and `...` written out."""
    pattern = "|".join(f"(?:{line})" for line in lines.strip().splitlines()).replace("...", r"\b.*")
    while "<" in pattern:
        pattern = re.sub(r"<(\w+)>", lambda name: _WORDS[name[1]], pattern)
    return pattern
