"""Three models, each served by vLLM, asked as one group through the command.

python examples/vllm_three_servers.py --python VENV/bin/python "What is the capital of France?"

VENV is one with vLLM in it; `make vllm` makes it in .vllm-venv, for the CPU. Without --model the three models of
tinyworld are served. On a machine with GPUs, one for each model:

python examples/vllm_three_servers.py --python VENV/bin/python --gpu --model meta-llama/Llama-3.1-8B-Instruct \
    --model Qwen/Qwen2.5-7B-Instruct --model mistralai/Mistral-7B-Instruct-v0.3 "What is the capital of France?"

Servers that run already need none of this: name their addresses in a file like the one that is printed here.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import MODELS

# a server takes almost all memory without the first; with chunked prefill, seeded requests at once end it on a CPU
CPU_FLAGS = (
    "--kv-cache-memory-bytes",
    "64M",
    "--no-enable-chunked-prefill",
    "--enforce-eager",
    "--dtype",
    "float32",
)
CPU_SETTINGS = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
UNOBSERVED = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}
AGENT = """
[[agents]]
name = "{name}"
provider = "openai"
model = "{name}"
base_url = "{url}"
n_samples = 10
temperature = 0.7
seed = 0
max_tokens = 48
"""
TINYWORLD = """
[clusterer]
kind = "entailment"
model = "tinyworld"

[policy]
kind = "threshold"
max_coe = 0.6
"""
LARGE = """
[clusterer]
kind = "entailment"
model = "microsoft/deberta-large-mnli"

[policy]
kind = "regime"
"""


@dataclass
class Server:
    """One vLLM process, a group of its own, and where it listens."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def is_up(self) -> bool:
        with (
            suppress(URLError, OSError),
            urlopen(self.url.removesuffix("/v1") + "/health", timeout=2) as reply,
        ):
            return bool(reply.status == 200)
        return False

    def wait(self, deadline: float) -> None:
        while not self.is_up():
            if self.process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(
                    f"vLLM did not come up with {self.name}; its log ends so:\n{tail}"
                )
            time.sleep(0.25)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        for attempt in (how, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, attempt)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=20)
                break
        with suppress(ProcessLookupError):  # the engine is a process of its own
            os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def serving(
    models: Mapping[str, str],
    *,
    python: str,
    folder: Path,
    gpu: bool = False,
    flags: Sequence[str] = (),
) -> Iterator[dict[str, Server]]:
    """Serves models, each by a name and a hub id or folder, on free ports of loopback while the context lasts."""
    with ExitStack() as running:
        servers = {}
        for place, (name, model) in enumerate(models.items()):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            settings = {"CUDA_VISIBLE_DEVICES": str(place)} if gpu else CPU_SETTINGS
            offline = OFFLINE if Path(model).is_dir() else {}
            log = folder / f"{name}.log"
            command = [
                python,
                "-m",
                "vllm.entrypoints.openai.api_server",
                "--model",
                model,
                "--served-model-name",
                name,
            ]
            command += ["--host", "127.0.0.1", "--port", str(port), "--max-logprobs", "20"]
            with log.open("wb") as written:
                process = subprocess.Popen(
                    [*command, *(() if gpu else CPU_FLAGS), *flags],
                    env={**os.environ, **UNOBSERVED, **offline, **settings, "TMPDIR": str(folder)},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            servers[name] = Server(name, f"http://127.0.0.1:{port}/v1", process, log)
            running.callback(servers[name].stop)
        deadline = time.monotonic() + 600
        for server in servers.values():
            server.wait(deadline)
        yield servers


def configuration(servers: Mapping[str, Server], rest: str = TINYWORLD) -> str:
    """Returns the file for `--config` that asks these servers."""
    return (
        "".join(
            AGENT.format(name=server.name, url=server.url) for server in servers.values()
        ).lstrip()
        + rest
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter of an environment with vLLM"
    )
    parser.add_argument(
        "--model", action="append", help="a hub id or folder; three of them make a group"
    )
    parser.add_argument("--gpu", action="store_true", help="a GPU for each model")
    given = parser.parse_args()
    models = {
        Path(model).name: model
        for model in given.model or [str(model_folder(name)) for name in MODELS]
    }
    with tempfile.TemporaryDirectory(prefix="coe") as folder:  # short: paths of sockets go under it
        began = time.monotonic()
        with serving(models, python=given.python, folder=Path(folder), gpu=given.gpu) as servers:
            print(f"{len(servers)} servers up after {time.monotonic() - began:.0f} s")
            file = Path(folder, "coe.toml")
            file.write_text(configuration(servers, LARGE if given.model else TINYWORLD))
            print(file.read_text())
            command = [
                sys.executable,
                "-m",
                "coe_agents",
                "ask",
                given.question,
                "--config",
                str(file),
            ]
            sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
