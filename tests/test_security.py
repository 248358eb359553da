"""What leaves the process, what is written, and what is run: no key, no connection unasked for, no foreign code."""

import ast
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import coe_agents
from coe_agents import ModelAgent
from coe_agents.config.build import create_agents
from coe_agents.config.schema import load_config
from coe_agents.errors import ConfigurationError
from coe_agents.testing import ScriptedAgent
from coe_agents.text import REDACTED
from tests.cli.command import run
from tests.configurations import SERVED
from tests.graph.groups import THREAD, graph
from tests.servers import Served, running, served, write

KEY = "sk-planted-0123456789abcdefghij"
SOURCES = sorted(Path(coe_agents.__file__).parent.rglob("*.py"))
CONFIG = SERVED.format(url="{url}", max_coe=0.5).replace(
    'on_greedy = "trust"\n', 'retries = 0\napi_key_env = "COE_PLANTED"\n'
)


class Echoing(Served):
    """Answers 401 and says back which key it was given."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def handle(self, handler, body):
        self.seen.append(handler.headers["Authorization"])
        said = {"error": {"message": f"Incorrect API key: {self.seen[-1]}", "code": KEY}}
        write(handler, 401, json.dumps(said).encode())


@pytest.fixture
def every_log(caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpcore", "langgraph", "langchain", "coe_agents"):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Where a configuration is; the planted key is in the environment."""
    monkeypatch.setenv("COE_PLANTED", KEY)
    path = tmp_path / "coe.toml"
    path.write_text(CONFIG.format(url="http://127.0.0.1:9/v1"))
    return path


@pytest.mark.wording  # that what a server says is quoted, but its key is not
@pytest.mark.parametrize("command", [["ask", "Q?", "--json"], ["doctor"]], ids=["ask", "doctor"])
@pytest.mark.parametrize("of", ["agent", "unreachable agent", "clusterer"])
def test_a_key_is_in_nothing_that_a_command_writes(command, of, path, every_log):
    with served() as sound, running(Echoing()) as server:
        text = CONFIG.format(
            url={"agent": server.url, "clusterer": sound.url}.get(of, "http://127.0.0.1:9/v1")
        )
        if of == "clusterer":
            access = f'provider = "openai"\nmodel = "m"\nbase_url = "{server.url}"\napi_key_env = "COE_PLANTED"\n'
            text = text.replace('kind = "normalized"\n', f'kind = "llm"\n{access}')
        path.write_text(text)
        done = run(*command, "--config", path, code=1)
    said = done.stdout + done.stderr
    is_echoed = of != "unreachable agent"
    assert set(server.seen) == (
        {f"Bearer {KEY}"} if is_echoed else set()
    )  # the key did go out, and did come back
    assert (REDACTED in said) == is_echoed
    assert ("AuthenticationError" in said) == is_echoed
    assert every_log.records
    assert KEY not in said + every_log.text


@pytest.mark.wording
def test_a_client_that_quotes_its_key_is_not_quoted(path, monkeypatch):
    def refuse(name, **options):
        raise ValueError(f"no such client for {name} with {options}")

    monkeypatch.setattr("langchain.chat_models.init_chat_model", refuse)
    done = run("config", "check", path, code=2)
    assert REDACTED in done.stderr
    assert KEY not in done.stderr


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é"])
def test_a_key_that_no_header_takes_is_refused_unquoted(key, path, monkeypatch):
    monkeypatch.setenv("COE_PLANTED", key)  # clients would quote it in their error
    done = run("ask", "Q?", "--config", path, code=2)
    assert KEY not in done.stderr
    with pytest.raises(ConfigurationError, match=r"coe\.toml:8: agents\[0\]\.api_key_env: "):
        create_agents(load_config(path))


@pytest.mark.parametrize(
    "line",
    [
        f'options = {{ api_key = "{KEY}" }}',
        f'base_url = "http://user:{KEY}@127.0.0.1:9/v1"',
        f'n_samples = "{KEY}"',
    ],
)
def test_a_key_in_the_file_itself_is_refused_unquoted(line, tmp_path):
    path = tmp_path / "coe.toml"
    path.write_text(f'[[agents]]\nname = "a"\nprovider = "openai"\nmodel = "m"\n{line}\n')
    with pytest.raises(ConfigurationError, match=re.escape(f"{path}:5: agents[0].")) as raised:
        load_config(path)
    assert raised.value.field.startswith("agents[0].")
    assert KEY not in str(raised.value)


async def test_a_key_is_in_no_state_and_no_checkpoint(every_log):
    saver = InMemorySaver()
    with running(Echoing()) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key=KEY, max_retries=0)
        asked = graph(ModelAgent("served", model, n_samples=2), retries=1).compile(
            checkpointer=saver
        )
        result = await asked.ainvoke({"question": "Q?"}, THREAD)
    assert len(server.seen) == 1  # a refused key is not tried again
    assert result["decision"]["failed_agents"]["served"].startswith("AuthenticationError")
    kept = [
        repr(result),
        repr(list(asked.get_state_history(THREAD))),
        repr(saver.storage),
        repr(saver.writes),
    ]
    kept += [repr(saver.blobs), every_log.text]
    # the bytes are legible
    assert "AuthenticationError" in repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)
    assert not [text for text in kept if KEY in text]


class Telling(ScriptedAgent):
    """An agent of a user's own that leaves retries to the graph, and whose errors tell its key."""

    api_key = ""

    def sample(self, request, config=None):
        self.requests.append(request)
        try:
            raise ConnectionError(f"no such key: {self.api_key}")
        except ConnectionError as cause:
            raise OSError("the request failed") from cause


async def test_a_key_is_not_in_what_langgraph_logs_of_a_retry(every_log):
    agent = Telling("own", ["x"])
    agent.api_key = KEY
    result = await graph(agent, retries=1).compile().ainvoke({"question": "Q?"})
    assert len(agent.requests) == 2
    assert "Retrying" in every_log.text  # LangGraph told of it, with the error and its causes
    assert KEY not in every_log.text + repr(result)


GUARDED = """
import sys
opened = []
def guard(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"):
        opened.append((event, repr(arguments)))
        raise OSError("no connection is allowed here")
sys.addaudithook(guard)
{code}
"""
ASK = """
from coe_agents.cli import main
sys.argv = ["coe-agents", "ask", "What is the capital of France?", "--json"]
try:
    main()
finally:
    print(opened, file=sys.stderr)
"""


def guarded(code):
    # whatever keeps libraries quiet in these tests must not do it here
    hushed = ("HF_HUB_OFFLINE", "LANGSMITH_TRACING", "TRANSFORMERS_OFFLINE")
    environment = {name: value for name, value in os.environ.items() if name not in hushed}
    code = GUARDED.format(code=code)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=environment,
    )


@pytest.mark.slow
def test_tinyworld_is_asked_without_any_connection():
    code = "import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:9')\nexcept OSError:\n    pass\n"
    assert (
        int(guarded(code + "print(len(opened))").stdout) >= 1
    )  # it would be seen, even where its error is swallowed
    done = guarded(ASK)
    assert done.returncode == 0, done.stderr
    assert "Paris" in json.loads(done.stdout)["answer"]
    assert done.stderr.splitlines()[-1] == "[]"


def unsafe(source: str) -> list[str]:
    """Returns what in a Python source reads pickles, or may run code that comes with a model."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
            )
            if [alias.name for alias in node.names] == ["Parallel", "delayed"]:
                continue  # what joblib sends is between processes of ours, never in a file
            pickles = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
            found += [name for name in names if name.split(".")[0] in pickles]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = (
                ast.unparse(node.func)
                if "load" in ast.dump(node.func)
                else getattr(node.func, "id", "")
            )
            found += [called] if called in ("torch.load", "torch.hub.load", "eval", "exec") else []
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "trust_remote_code"):
            found += [] if ast.unparse(node.value) == "False" else [node.arg]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            keys = [
                key
                for key, value in pairs
                if isinstance(key, ast.Constant) and ast.unparse(value) != "False"
            ]
            found += [
                key.value for key in keys if key.value in ("allow_pickle", "trust_remote_code")
            ]
    return found


def test_no_source_reads_pickles_or_trusts_remote_code():
    assert {path.name: unsafe(path.read_text()) for path in SOURCES} == {
        path.name: [] for path in SOURCES
    }
    found = [
        "import pickle",
        "from joblib import load",
        "torch.load('x')",
        "np.load('x', allow_pickle=True)",
    ]
    found += ["f(trust_remote_code=given)", "f(**{'trust_remote_code': True})"]
    assert [len(unsafe(source)) for source in found] == [1] * len(found)


@pytest.mark.parametrize("kind", ["config", "tokenizer"])
def test_code_that_comes_with_a_model_is_not_run(kind, tmp_path):
    from transformers import AutoModelForCausalLM

    from coe_agents.backends.model_loading import load
    from coe_agents.errors import ModelLoadError

    ran = tmp_path / "ran"
    (tmp_path / "own.py").write_text(
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\nclass Own: pass\n"
    )
    if kind == "config":
        config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
        tokenizer = {}
    else:
        config = {"model_type": "llama"}
        tokenizer = {"auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelLoadError):
        load(AutoModelForCausalLM, str(tmp_path), device="cpu", dtype=None, revision=None)
    assert not ran.exists()


def test_no_configuration_turns_remote_code_on(tmp_path):
    from coe_agents.config.build import assemble

    path = tmp_path / "coe.toml"
    agent = '[[agents]]\nname = "a"\nmodel = "owner/name"\noptions = { trust_remote_code = true }\n'
    path.write_text(
        agent + '[clusterer]\nkind = "normalized"\n[policy]\nkind = "threshold"\nmax_coe = 1\n'
    )
    with pytest.raises(ConfigurationError, match=r"options\.trust_remote_code: unknown option"):
        assemble(load_config(path))
