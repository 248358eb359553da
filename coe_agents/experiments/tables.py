"""Owns an experiment as CSV and as LaTeX; text of models in it is escaped."""

import csv
import io
import re

from coe_agents.experiments.experiment import Cell, Experiment, Row

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_SPECIAL = re.compile("[" + re.escape("".join(_LATEX)) + "]")


def to_csv(experiment: Experiment) -> str:
    """Returns the lines with full precision; the caption follows, each line behind a "#".

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_unformulated(head) for head in experiment.heads])
    writer.writerows([["" if cell is None else _unformulated(cell) for cell in line] for line in experiment.lines()])
    return out.getvalue() + "".join(f"# {' '.join(line.split())}\n" for line in (experiment.title, *under(experiment)))


def to_latex(experiment: Experiment) -> str:
    """Returns a `table` environment that needs booktabs and graphicx; all texts are escaped."""
    heads, lines = experiment.heads, experiment.lines()
    columns = "".join("r" if _is_numeric(lines, place) else "l" for place in range(len(heads)))
    body = "\n".join(" & ".join(escaped(shown(cell)) for cell in line) + r" \\" for line in lines)
    caption = " ".join(f"{each.rstrip('.')}." for each in (experiment.title, *under(experiment)))
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{escaped(caption)}}}",
            rf"\label{{tab:{experiment.name}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(escaped(head) for head in heads) + r" \\",
            r"\midrule",
            body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def under(experiment: Experiment) -> list[str]:
    """Returns the caption of a table and a picture: the paper's label, the notes, the settings."""
    label = [f"The paper's {experiment.label}"] if experiment.label else []
    return [*label, *experiment.notes, "; ".join(f"{name}: {value}" for name, value in experiment.settings.items())]


def shown(cell: Cell) -> str:
    """Returns a cell as tables show it: three decimals, "-" for what could not be computed."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def escaped(text: str) -> str:
    r"""Returns `text` as LaTeX sets it, on one line, without control characters.

    Example:
        >>> escaped("50% of $x_1$ \\input{a}")
        '50\\% of \\$x\\_1\\$ \\textbackslash{}input\\{a\\}'
    """
    plain = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return _SPECIAL.sub(lambda found: _LATEX[found[0]], plain)


def _is_numeric(lines: list[Row], place: int) -> bool:
    return all(not isinstance(line[place], str) for line in lines)


def _unformulated(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
