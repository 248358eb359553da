"""Owns an experiment as a picture, PNG and SVG."""

import textwrap
from pathlib import Path

from coe_agents.experiments.experiment import Experiment
from coe_agents.experiments.tables import under

_CHARACTERS_AN_INCH = 15.5
_LINE = 0.17
"""Inches that a line of the caption takes."""
_HEAD = 0.45


def draw_to(experiment: Experiment, folder: Path) -> list[Path]:
    """Draws an experiment with its title above and what it was run under below it.

    Returns:
        The files written.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ModuleNotFoundError as error:
        raise ImportError('pictures need matplotlib; pip install "coe-agents[plots]"') from error
    wide = int(experiment.width * _CHARACTERS_AN_INCH)
    caption = [line for text in under(experiment) for line in textwrap.wrap(_plain(text), wide)]
    below = _LINE * len(caption) + 0.2
    height = experiment.height + below + _HEAD
    # no state of pyplot's is touched; text stays text in the SVG, and nothing of it is read as mathematics
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": experiment.name, "text.parse_math": False}):
        layout = ConstrainedLayoutEngine(rect=(0.0, below / height, 1.0, experiment.height / height))
        figure = Figure(figsize=(experiment.width, height), layout=layout)
        experiment.draw(figure)
        figure.text(0.5, 1 - 0.12 / height, _plain(experiment.title), ha="center", va="top", fontsize=13)
        figure.text(0.01, 0.08 / height, "\n".join(caption), ha="left", va="bottom", fontsize=8, color="dimgrey")
        paths = [folder / f"{experiment.name}.{kind}" for kind in ("png", "svg")]
        for path in paths:
            figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _plain(text: str) -> str:
    return "".join(character for character in " ".join(text.split()) if character.isprintable())
