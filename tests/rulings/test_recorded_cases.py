import pytest
import typer

from coe_agents.cli.stores import open_recording, open_store
from coe_agents.config.schema import load_config
from coe_agents.errors import StoreError
from coe_agents.rulings import Recording
from coe_agents.rulings.recorded import pending_cases
from tests.cli.command import run

AGENT = 'agents = [{name = "a", provider = "tinyworld", model = "tiny-llama"}]\n'
RECORD = '[record]\nstore = "cases.sqlite"\naudit_rate = 0.25\n'


def test_ask_records_an_answer(tmp_path):
    file = tmp_path / "cases.sqlite"
    for _ in range(2):  # the second time the file is there
        run("ask", "What is the capital of France?", "--record", file, "--audit-rate", 1)
    with open_store(str(file)) as store:
        assert [case["kind"] for case in pending_cases(store)] == ["audit", "audit"]


def test_the_configuration_says_where_and_options_come_before_it(tmp_path):
    path = tmp_path / "coe.toml"
    path.write_text(AGENT + RECORD)
    config = load_config(path)
    with open_recording(config, None, None) as options:
        assert options["on_decision"] == Recording(audit_rate=0.25)
        assert (tmp_path / "cases.sqlite").exists()
    with open_recording(config, str(tmp_path / "other.sqlite"), 0.5) as options:
        assert options["on_decision"] == Recording(audit_rate=0.5)
    with pytest.raises(typer.BadParameter, match="needs a store"), open_recording(None, None, 0.5):
        pass
    with (
        pytest.raises(StoreError),
        open_recording(None, str(tmp_path / "missing" / "x.sqlite"), None),
    ):
        pass
