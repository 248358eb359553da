import csv
from io import StringIO

from rich.console import Console

from coe_agents.experiments.experiment import Experiment, draw_to, to_csv
from coe_agents.experiments.tables import show_claim_figures

EVIL = r"\input{/etc/passwd} 100% & $x_1$ #^~ <b>" + "\x1b[31m"


EXPERIMENT = Experiment(
    name="e",
    title=EVIL,
    columns=("agent", "value"),
    rows=((EVIL, 0.12345), ("=1+1", None)),
    draw=lambda figure: figure.subplots().set_title(EVIL[:-5]),
    settings={"agents": EVIL},
)


def test_csv_keeps_all_digits_and_no_formula_and_pictures_their_text_and_no_mathematics(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text(to_csv(EXPERIMENT))
    rows = list(
        csv.reader(
            line for line in path.read_text().splitlines() if not line.startswith(("#", '"#'))
        )
    )
    assert rows == [["agent", "value"], [EVIL, "0.12345"], ["'=1+1", ""]]
    assert path.read_text().splitlines()[-1].startswith("# agents: ")
    paths = draw_to(EXPERIMENT, tmp_path)
    assert [path.name for path in paths] == ["e.png", "e.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    drawn = paths[1].read_text()
    assert "$x_1$ #^~ &lt;b&gt;" in drawn
    assert "<tspan" not in drawn  # of which mathematics would be made


def test_brackets_in_the_name_of_an_agent_are_text_in_the_table_of_claims():
    figures = {
        "n_claims": 4,
        "n_wrong": 1,
        "auroc": [0.5, 0.4, 0.6],
        "auroc_within": None,
        "precision": {"0.5": 1.0},
    }
    out = StringIO()
    show_claim_figures(Console(file=out, width=100), {"agents": {"a[/b]": figures}})
    assert "a[/b]" in out.getvalue()
