"""The documentation: its code runs, its commands and configuration files exist, its reference is complete."""

import ast
import contextlib
import importlib
import inspect
import itertools
import pkgutil
import platform
import re
import shlex
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt

import coe_agents
from coe_agents import experiments
from coe_agents.cli.app import app
from coe_agents.config import load
from coe_agents.config.schema import load_config
from tools.docs.blocks import NOT_RUN

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"_build", "results"} & set(path.relative_to(DOCS).parts)
]
INCLUDED = re.compile(r'(include\("[^\n]*\n).*?(?=<!--end)', re.DOTALL)
TEXTS = {
    path.relative_to(DOCS).as_posix(): INCLUDED.sub(r"\1", path.read_text(encoding="utf-8"))
    for path in PAGES
}
"""The pages, without the results that they show."""
FENCE = re.compile(r"^```(\S[^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str, *languages: str) -> list[str]:
    """Returns the fenced blocks of a page in these languages, such as "python"."""
    return [body for language, body in FENCE.findall(TEXTS[page]) if language in languages]


def with_blocks(*languages: str) -> list[str]:
    return [page for page in TEXTS if blocks(page, *languages)]


def needs_more(block: str) -> bool:
    """Whether a Python block says that it needs more than the package, such as a key."""
    return block.startswith(NOT_RUN)


LONG = ("guides/rounds.md", "guides/tinyworld.md")
"""Pages whose blocks take seconds of CPU."""
WORDED = ("gate.md",)
"""Pages whose blocks show what is said to a model or a person."""


def marked(page):
    marks = []
    if page in LONG:
        marks.append(pytest.mark.slow)
    if page in WORDED:
        marks.append(pytest.mark.wording)
    return pytest.param(page, marks=marks)


TRIED = [page for page in with_blocks("python") if not page.startswith(("api/", "notebooks/"))]
"""The pages whose Python blocks run here. `make docs` runs those of the notebooks, and compares what they print."""


@pytest.mark.slow
@pytest.mark.parametrize("page", [marked(page) for page in TRIED])
def test_python_blocks_run_in_order(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    namespace = {"__name__": "docs"}
    for number, block in enumerate(blocks(page, "python"), start=1):
        if not needs_more(block):
            exec(compile(block, f"docs/{page}, block {number}", "exec"), namespace)


def test_what_a_gate_can_do_more_takes_five_statements_of_a_user():
    _, *shown = blocks("guides/gate-when.md", "python")  # the first makes the agents of the page
    for block in shown:
        of_a_user = [
            statement
            for statement in ast.parse(block).body
            if not isinstance(statement, ast.Assert) and ast.unparse(statement) != "paid.clear()"
        ]
        assert len(of_a_user) <= 5, block


@pytest.mark.parametrize("page", with_blocks("python"))
def test_blocks_that_need_more_import_what_exists(page):
    for block in filter(needs_more, blocks(page, "python")):
        for statement in ast.walk(ast.parse(block)):
            if isinstance(statement, ast.ImportFrom) and "coe_agents" in statement.module:
                module = importlib.import_module(statement.module)
                assert all(hasattr(module, alias.name) for alias in statement.names)


REST = (
    '[[agents]]\nname = "a"\nmodel = "m"\n',
    '[clusterer]\nkind = "normalized"\n',
    '[policy]\nkind = "threshold"\nmax_coe = 1\n',
)


@pytest.mark.parametrize(
    "page", [page for page in with_blocks("toml") if page != "guides/extend.md"]
)
def test_configurations_are_valid(page, tmp_path):
    for block in blocks(page, "toml"):
        given = set(tomllib.loads(block))
        given |= {"clusterer"} if "answers" in given else set()  # which comes with its own
        rest = [table for table in REST if not set(tomllib.loads(table)) & given]
        file = tmp_path / "coe.toml"
        file.write_text("\n".join([block, *rest]))
        load_config(file)


def test_parts_of_ones_own_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("my_parts.py").write_text("\n\n".join(blocks("guides/extend.md", "python")))
    tables = [tomllib.loads(block) for block in blocks("guides/extend.md", "toml")]
    for block, table in zip(blocks("guides/extend.md", "toml"), tables, strict=True):
        rest = [each for each in REST if not set(tomllib.loads(each)) & set(table)]
        Path("coe.toml").write_text("\n".join([block, *rest]))
        assert load(Path("coe.toml")).create_graph()
    sys.modules.pop("my_parts")


def test_commands_and_their_options_exist():
    command = typer.main.get_command(app)
    lines = [
        (page, line)
        for page in TEXTS
        for line in re.findall(r"^(?:\$ )?(coe-agents .*)$", TEXTS[page], re.MULTILINE)
        if "[OPTIONS]" not in line  # the help of the command itself
    ]
    assert len(lines) > 20
    for page, line in lines:
        words = shlex.split(line, comments=True)[1:]
        found = command
        while (subcommands := getattr(found, "commands", None)) and words:
            name = words.pop(0)
            assert name in subcommands, f"docs/{page}: {line}"
            found = subcommands[name]
            if words[:1] == ["|"]:  # "sample | evaluate": one of these
                break
        options = {option for parameter in found.params for option in parameter.opts}
        unknown = {
            word.strip("[]") for word in words if word.lstrip("[").startswith("--")
        } - options
        assert not unknown, f"docs/{page}: {line}"


LANGUAGES = {"", "bash", "console", "json", "math", "python", "text", "toml"}
SHOWN = [*sorted(ROOT.glob("*.md")), *PAGES]
MARKDOWN = MarkdownIt("commonmark").enable("table")


@cache
def parse(path):
    return MARKDOWN.parse(path.read_text(encoding="utf-8"))


def inline(path):
    """The pieces of text and the links of a page, as a forge reads it."""
    for token in parse(path):
        yield from token.children or []


@cache
def anchors(path):
    """What may stand behind "#" in a link to a page."""
    titles = [
        text.content.replace("`", "").lower()
        for heading, text in itertools.pairwise(parse(path))
        if heading.type == "heading_open"
    ]
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_forge_can_show_the_page(path):
    assert {token.info for token in parse(path) if token.type == "fence"} <= LANGUAGES
    for before, after in itertools.pairwise(inline(path)):
        is_role = after.type == "code_inline" and re.search(r"\{[\w:-]+\}$", before.content)
        assert not is_role, after.content
        assert not before.content.startswith(":::")


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_into_the_repository_lead_somewhere(path):
    pictures = re.findall(r'(?:src|srcset)="([^":]+)"', path.read_text(encoding="utf-8"))
    links = [str(token.attrGet("href") or token.attrGet("src") or "") for token in inline(path)]
    for link in [*pictures, *filter(None, links)]:
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if ":" not in link:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target.resolve()), link


REFERENCE = "\n".join(text for page, text in TEXTS.items() if page.startswith("api/"))
INTERNAL = {"cli", "cli.display", "doctor", "graph.nodes", "agents.choice", "agents.requests"}
INTERNAL |= {"distributed", "paper"}
INTERNAL |= {"measurement"}  # what is public of it is in `coe_agents.policy`
INTERNAL |= {f"evaluation.{name}" for name in ("calibration", "datasets", "samples", "scoring")}
"""Of the last, `coe_agents.evaluation` has what is public."""


def test_the_reference_has_every_package_and_every_name_of_the_first():
    for _, package, is_package in pkgutil.walk_packages(coe_agents.__path__, "coe_agents."):
        if is_package and package.removeprefix("coe_agents.") not in INTERNAL:
            assert hasattr(importlib.import_module(package), "__all__"), package
            assert f'reference("{package}"' in REFERENCE
    for name in coe_agents.__all__:
        assert f"`{name}`" in TEXTS["api/coe_agents.md"], name


def test_the_reference_declares_functions_as_they_are_called():
    for name in experiments.__all__:
        function = getattr(experiments, name)
        (declared,) = [
            statement
            for block in blocks("api/experiments.md", "python")
            for statement in ast.parse(block).body
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            and statement.name == name
        ]
        assert isinstance(declared, ast.AsyncFunctionDef) == inspect.iscoroutinefunction(function)
        arguments = [argument.arg for argument in (*declared.args.args, *declared.args.kwonlyargs)]
        known = inspect.signature(function).parameters.values()
        assert arguments == [
            each.name for each in known if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ]


def test_the_picture_of_the_regimes_is_the_one_that_the_script_draws(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    importlib.import_module("draw_quadrants").main(tmp_path)
    sys.modules.pop("draw_quadrants")
    for name in ("quadrants-light.svg", "quadrants-dark.svg"):
        drawn, kept = ((folder / name).read_text() for folder in (tmp_path, DOCS))
        # the words and numbers; curves differ in their last digits from one version of matplotlib to another
        words = [
            re.findall(r"<text[^>]*>(.*?)</text>", picture, re.DOTALL) for picture in (drawn, kept)
        ]
        assert words[0] == words[1] != []


RESULTS = sorted((DOCS / "results").glob("*.md"))


@pytest.fixture
def result_page(monkeypatch):
    """The module of `benchmarks`, whose scripts import it from beside themselves."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("result_page")


def marker_fault(result_page, path):
    """Returns what is wrong with the first line of a page of results; None if nothing is."""
    marker, _, body = path.read_text(encoding="utf-8").partition("\n")
    if f"{marker}\n" != result_page.MARKER.format(result_page.digest(body)):
        return f'the digest of "{path.name}" is not that of its text. Write it with `make benchmark-{path.stem}`'
    return None


def test_a_benchmark_writes_its_page(tmp_path, monkeypatch, capsys, result_page):
    path = tmp_path / "core.md"
    script = str(ROOT / "benchmarks" / "core.py")
    monkeypatch.setattr(
        sys, "argv", [script, "--write", str(path), str(tmp_path), "--peers", sys.executable]
    )
    with result_page.result_page():
        assert sys.argv[1:] == [str(tmp_path), "--peers", sys.executable]
        print("seconds 1.0  ")
    assert capsys.readouterr().out == "seconds 1.0  \n"
    _, command, _, table = path.read_text().split("\n", 3)
    assert command.startswith(
        "`python benchmarks/core.py FOLDER --peers FILE` (20"
    )  # no path of this machine
    assert f"Python {platform.python_version()}" in command
    assert table == "```text\nseconds 1.0\n```\n"
    assert marker_fault(result_page, path) is None
    path.write_text(path.read_text().replace("1.0", "0.9"))
    assert "make benchmark-core" in marker_fault(result_page, path)


@pytest.mark.parametrize("write", [True, False])
def test_a_benchmark_that_fails_or_has_no_page_writes_nothing(
    tmp_path, monkeypatch, result_page, write
):
    path = tmp_path / "core.md"
    path.write_text("what was measured last")
    monkeypatch.setattr(sys, "argv", ["core.py", *(["--write", str(path)] if write else [])])
    monkeypatch.setattr(result_page, "ROOT", Path.cwd())
    with (
        pytest.raises(ZeroDivisionError) if write else contextlib.nullcontext(),
        result_page.result_page(),
    ):
        print(1 / (not write))
    assert path.read_text() == "what was measured last"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_results_are_as_the_benchmark_wrote_them(path, result_page):
    assert marker_fault(result_page, path) is None
    script = ROOT / "benchmarks" / f"{path.stem}.py"
    assert f"`python benchmarks/{script.name}" in path.read_text().splitlines()[1]
    assert "with result_page():" in script.read_text()


def test_every_benchmark_has_a_page_and_make_runs_it():
    pages = {path.stem for path in RESULTS}
    scripts = [path for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "result_page"]
    assert {path.stem for path in scripts if "result_page" in path.read_text()} == pages
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    lists = re.findall(r"^(?:DATA_)?BENCHMARKS := (.*)$", makefile, re.MULTILINE)
    by_itself = {"entailment", "gpu", "served_sampling"}
    assert {name for line in lists for name in line.split()} | by_itself == pages
    included = re.findall(r'include\("results/(\w+)\.md"\)', "\n".join(TEXTS.values()))
    assert set(included) == pages


FIGURES = re.findall(
    r"^\| [^|]+ \| ([^|]+) \| [^|]*results/(\w+)\.md\)\) \|$",
    (ROOT / "README.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("figures", "page"), FIGURES)
def test_the_figures_of_the_readme_are_those_of_the_pages(figures, page):
    printed = re.findall(r"\d+(?:\.\d+)?", (ROOT / f"docs/results/{page}.md").read_text())
    assert set(re.findall(r"\d+(?:\.\d+)?", figures)) <= set(printed)


def test_there_are_figures_in_the_readme_and_python_blocks_in_the_documentation():
    assert len(FIGURES) >= 8
    assert len(with_blocks("python")) >= 12
