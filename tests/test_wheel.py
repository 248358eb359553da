"""The wheel, built from this checkout, installed in an environment of its own, and used from another directory."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import coe_agents

pytestmark = pytest.mark.slow
pytest.importorskip("hatchling", reason="the build backend, part of the group dev")

ROOT = Path(__file__).parent.parent
IMPORT_ALL = """
import coe_agents, importlib, pkgutil
names = [name for _, name, is_package in pkgutil.walk_packages(coe_agents.__path__, "coe_agents.") if is_package]
modules = [coe_agents, *map(importlib.import_module, names)]
public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
print(len(modules), len(public), coe_agents.__file__)
"""


def output(*command, folder):
    """Runs a command in a folder, without the paths that lead to this checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    output(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        folder,
        folder=ROOT,
    )
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """Holds the wheel alone; all that it depends on is taken from the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    output(
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin" / "python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
        folder=folder,
    )
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # in folders that are added so no .pth file is read, thus no editable installation of this checkout found
    dependencies = [path for path in sys.path if Path(path).name == "site-packages"]
    (site_packages / "dependencies.pth").write_text("\n".join(dependencies))
    return folder


def test_it_holds_every_file_of_the_package_and_no_other(wheel):
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (
        path
        for path in (ROOT / "coe_agents").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )
    assert held == {path.relative_to(ROOT).as_posix() for path in files}
    assert {"coe_agents/py.typed", "coe_agents/tinyworld/models/tiny-nli/model.safetensors"} <= held


def test_every_public_name_is_imported_from_it(environment, tmp_path):
    n_modules, n_public, place = output(
        environment / "bin" / "python", "-c", IMPORT_ALL, folder=tmp_path
    ).split()
    assert Path(place).is_relative_to(environment)
    assert int(n_modules) > 20
    assert int(n_public) > len(coe_agents.__all__)


def test_its_command_works(environment, tmp_path):
    command = environment / "bin" / "coe-agents"
    assert output(command, "--version", folder=tmp_path) == f"coe-agents {coe_agents.__version__}\n"
    said = json.loads(
        output(command, "ask", "What is the capital of France?", "--json", folder=tmp_path)
    )
    assert "Paris" in said["answer"]
