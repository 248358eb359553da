r"""Owns simple LaTeX in short answers: what has one plain form is written in it, such as `\frac{1}{2}` as "1/2"."""

import re

_TABLE = """
times × cdot · div ÷ pm ± le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ lt < gt > approx ≈ equiv ≡ infty ∞ degree °
in ∈ notin ∉ cup ∪ cap ∩ land ∧ lor ∨ neg ¬ to → rightarrow →
alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ omicron ο
pi π rho ρ sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω
"""
_WORDS = _TABLE.split()
SIGNS = {"left": "", "right": "", "displaystyle": "", "quad": " "}
for _name, _sign in zip(_WORDS[::2], _WORDS[1::2], strict=True):
    SIGNS |= {_name.title(): _sign.upper(), _name: _sign}
_INTEGER = r"\s*(?:\{\s*(-?\d+)\s*\}|(\d))"
# what follows would belong to the last part alone once the braces are gone
_END = r"(?![\w^!({\\])"

_DELIMITERS = re.compile(r"(\${1,2})(?![\s$])([^$]+)(?<!\s)\1(?!\d)|\\[()\[\]]")
_FRACTION = rf"\\[dtc]?frac{_INTEGER}{_INTEGER}{_END}"
_FORMS = (
    (re.compile(rf"(?<=\d){_FRACTION}"), r" \1\2/\3\4"),  # a mixed number
    (re.compile(_FRACTION), r"\1\2/\3\4"),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-zA-Z]))"), "°"),
    (re.compile(rf"\\sqrt\s*(?:\{{\s*(\d+|[a-z])\s*\}}|(\d)){_END}"), r"√\1\2"),
    (re.compile(r"\^\s*(?:\{\s*(\w|\d[+-])\s*\}|\{\s*(-?\d+)\s*\}(?!\w))"), r"^\1\2"),
    (re.compile(r"(?<=[a-zA-Z])\^\{?([+-])\}?(?![\w(\\{])"), r"\1"),
    (re.compile(r"_\{(\w+)\}"), r"_\1"),
    (
        re.compile(
            r"\\(?:boxed|fbox|mbox|underline|text(?:bf|it|rm)?|math(?:bf|it|rm)|operatorname)\s*\{([^{}]*)\}"
        ),
        r"\1",
    ),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;: ]|(?<=[\w}])~(?=[\w\\])"), " "),
    (re.compile(r"\\!"), ""),
)
# of a formula or a variable, as in "H_2O": no base and no name such as "log_2" or "file_2"
_SUBSCRIPT = re.compile(r"_(?<=[a-zA-Z)]_)(?<![a-z\\][a-z]_)(?=\d+(?!\w*_))")
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
_ESCAPE = re.compile(r"\\([%$#&_{}])")
_DEEPEST = 8


def read_latex(text: str) -> str:
    r"""Returns `text` with simple LaTeX as plain signs; what is not simple stays as it is.

    Simple are fractions and powers of integers, roots of one number or letter, `\text` and `\boxed` in any depth up
    to 8, delimiters, blanks, `{,}`, degrees, and the signs of a table.

    Example:
        >>> [read_latex(each) for each in (r"$\dfrac{1}{2}$", r"8{,}000\text{ cm}", r"90^\circ", r"x \geq \sqrt{3}")]
        ['1/2', '8,000 cm', '90°', 'x ≥ √3']
        >>> read_latex(r"\frac{1}{x+1}")
        '\\frac{1}{x+1}'
    """
    if "$" in text:
        text = _DELIMITERS.sub(r"\2", text)
    if "\\" in text or "{" in text:
        text = _DELIMITERS.sub(r"\2", text)
        for _ in range(_DEEPEST):
            before = text
            for form, plain in _FORMS:
                text = form.sub(plain, text)
            if text == before:
                break
        text = _COMMAND.sub(lambda command: SIGNS.get(command[1], command[0]), text)
        text = _ESCAPE.sub(r"\1", text)
    return _SUBSCRIPT.sub("", text)
