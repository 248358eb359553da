"""The English of docstrings, comments, messages, help texts and documentation, and the names of functions."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = ("coe_agents", "benchmarks", "examples", "graphs", "docs", "tests")
PLAIN = ["Makefile", "*.md", "*.toml", "docs/**/*.md", "examples/*.toml", "deploy/*"]

PHRASES = {
    r"\b(hangs?|hanging|hung) (up)?on\b": "depends on",
    r"\bblot(s|ted|ting)? out\b": "redacted",
    r"\bof one mind\b": "in agreement",
    r"\bleave (it|them|this|that) out\b": "omit it",
    r"; \S+( \S+)? came\b|\bcame(?=\. |[;\"'])": "; got ...",
    r"\bif it is none\b|\bif they are none\b|\bwhich there is not\b": "is not a ..., does not exist",
    r"\bminds? (the|a|an|its|their)\b": "honours, respects",
    r"\b(takes?|took|taken) up\b(?! to\b)": "resumes, continues",
    r"\b(gives?|gave|given|giving) way\b": "changed its answer",
    r"\b(comes?|came) of\b": "results from",
    r"\b(is|are|was|were|be|been) put to\b": "is passed to, is asked",
    r"\bgo(es)? on where\b": "resume",
    r"\bwhat clusters\b": "the clusterer",
    r"\bwho is down\b": "unreachable servers",
    r"\bwhat it wishes\b": "overrides",
    r"\bas one pleases\b|\bat one's pleasure\b": "as you like",
    r"\bwhat it took\b|\bis (asked|drawn|made) anew\b|\bcalibrate (it )?anew\b": "the tokens used, again",
    r"\bthe way from\b": "the step from",
    r"\b(is|are) told by\b|\bwhose lead several\b": "is recognised by, if several ... tie",
    r"\b(is|are|was|were|be) found out\b|\bfound out by asking\b": "is detected",
    r"\bhangs? up\b": "drops the connection",
    r"\bfailures? that may pass\b|\bof what may pass\b": "a transient failure",
    r"\b(responses|answers?) at hand\b": "the responses so far",
    r"\brequests? (are |is )?under way\b": "in flight",
    r"\byours to choose\b": "you choose",
    r"\bnothing but itself\b": "self-contained",
}
"""What is not written here, and what is instead."""
ANYWHERE = [re.compile(phrase.replace(r"\b", "")) for phrase in PHRASES]
"""The same also within words, and in lower case alone: much quicker to find."""

PAST = (
    "[a-z]+ed|born|bound|built|chosen|drawn|done|found|given|gone|heard|held|kept|known|left|led|lost|made|meant|met|paid"
    "|said|seen|sent|shown|spent|spoken|sworn|taken|thought|told|torn|worn|written"
)
PARTICIPLES = re.compile(rf"(?:un)?(?:{PAST})|[a-z]+ing|checked_\w+")
TERMS = {
    "contested": "the name of a field of the decision",
    "embed_documents": "a verb, of LangChain's `Embeddings`",
    "embed_query": "a verb, of LangChain's `Embeddings`",
    "ranking": "the name of an experiment",
    "sampling": "the name of an experiment",
    "wording": "a noun",
}
"""Functions that may be named by what looks like a participle, and why."""


def texts_of(source: str, *, strings: bool) -> Iterator[tuple[int, str]]:
    """Yields line number and text of every comment and docstring, and of the other strings if `strings`."""
    docstrings = {
        node.body[0].value.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node)
    }
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and (strings or token.start[0] in docstrings)
        ):
            yield token.start[0], token.string


def find_phrases(text: str) -> Iterator[str]:
    """Yields each phrase of the text that is not written here, and what to write instead."""
    flat = re.sub(r"\s+#?\s*", " ", text)
    if not any(phrase.search(flat.lower()) for phrase in ANYWHERE):
        return
    for phrase, instead in PHRASES.items():
        for match in re.finditer(phrase, flat, re.IGNORECASE):
            yield f'"{match[0]}": write "{instead}"'


def test_code_is_in_plain_english():
    faults = []
    files = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in [path for path in files if path != Path(__file__) and "_build" not in path.parts]:
        source = path.read_text(encoding="utf-8")
        if any(find_phrases(source)):  # one search for most files
            faults += [
                f"{path.relative_to(ROOT)}:{line}: {fault}"
                for line, text in texts_of(source, strings="tests" not in path.parts)
                for fault in find_phrases(text)
            ]
    assert not faults, "\n".join(faults)


def test_documentation_is_in_plain_english():
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for pattern in PLAIN
        for path in sorted(ROOT.glob(pattern))
        if path.is_file() and "_build" not in path.parts
        for fault in find_phrases(path.read_text(encoding="utf-8"))
    ]
    assert not faults, "\n".join(faults)


def functions_of(source: str) -> Iterator[tuple[int, str]]:
    """Yields line number and name of every public function and method; a property may be an adjective."""
    for node in ast.parse(source).body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(
                each, ast.FunctionDef | ast.AsyncFunctionDef
            ) and not each.name.startswith("_"):
                decorators = {
                    ast.unparse(decorator).rpartition(".")[2] for decorator in each.decorator_list
                }
                if not decorators & {"property", "cached_property", "setter"}:
                    yield each.lineno, each.name


def test_functions_are_named_by_verbs_or_nouns():
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "coe_agents").rglob("*.py"))
        for line, name in functions_of(path.read_text(encoding="utf-8"))
        if PARTICIPLES.fullmatch(name) and name not in TERMS
    ]
    assert not faults, "\n".join(faults)


def test_what_is_not_written_here_is_found():
    planted = (
        '"""The order hangs\n    on it."""\n\n'
        'def told():  # the servers: who is down\n    raise ValueError("two are needed; 1 came")\n'
    )
    found = [fault for _, text in texts_of(planted, strings=True) for fault in find_phrases(text)]
    assert [fault.partition(":")[0] for fault in found] == [
        '"hangs on"',
        '"who is down"',
        '"; 1 came"',
    ]
    assert [name for _, name in functions_of(planted) if PARTICIPLES.fullmatch(name)] == ["told"]
    assert not any(
        PARTICIPLES.fullmatch(name)
        for name in ("tell", "read", "is_tied", "leading_cluster", "entropy")
    )
