"""A small OpenAI-compatible server on loopback, for tests that drive real clients."""

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from langchain_openai import ChatOpenAI

from coe_agents.prompts import INVENTED_STORY

Reply = tuple[int, dict[str, Any]]
_PATIENCE = 60.0
CHARACTERS = "aZ3k9" * 8
"""A reply to a request for 40 random characters."""
TOKENS = [
    {"token": "", "bytes": [240], "logprob": -0.5, "top_logprobs": []},
    {"token": "x", "bytes": [120], "logprob": -0.25, "top_logprobs": []},
]


class Served:
    """What was asked, and how to answer: by default as vLLM does, choice i from the seed + i.

    Where it ignores the temperature, its replies to a probe are equal, too; it answers nobody before as many as it
    `gathers` were here at once.
    """

    def __init__(
        self,
        texts: tuple[str, ...] = ("Paris",),
        *,
        ignores_n: bool = False,
        ignores_logprobs: bool = False,
        ignores_temperature: bool = False,
        refuses: tuple[str, ...] = (),
        seconds: float = 0.0,
        gathers: int = 1,
        keeps_alive: bool = False,
    ) -> None:
        self.texts = texts
        self.ignores_n = ignores_n
        self.ignores_logprobs = ignores_logprobs
        self.ignores_temperature = ignores_temperature
        self.refuses = refuses
        self.seconds = seconds
        self.gathers = gathers
        self.keeps_alive = keeps_alive
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self.offers: list[dict[str, Any]] = [
            {"id": "served", "object": "model", "created": 1, "owned_by": "us"}
        ]
        self.closing = threading.Event()
        self.n_listed = self.n_busy = self.most_busy = 0
        self.lock = threading.Condition()
        self.may_answer: Callable[[], bool] = lambda: True
        """Requests are held while it returns false."""

    def handle(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """Answers one request; a server with faults does something else here."""
        with self.lock:
            self.n_busy += 1
            self.most_busy = max(self.most_busy, self.n_busy)
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.most_busy >= self.gathers, _PATIENCE)
        while not self.may_answer() and not self.closing.wait(0.005):
            pass
        self.closing.wait(self.seconds)
        with self.lock:
            self.n_busy -= 1
        refused = next((name for name in self.refuses if name in body), None)
        if refused is not None:
            said = {
                "error": {
                    "message": f"Unsupported parameter: '{refused}' is not supported with this model."
                }
            }
            write(handler, 400, json.dumps(said).encode())
        elif handler.path.endswith("/embeddings"):
            write(handler, 200, json.dumps(self.embeddings(body)).encode())
        elif handler.path.endswith("/responses"):
            write(handler, 200, json.dumps(self.responses_api(body)).encode())
        elif body.get("stream"):
            write(handler, 200, self.stream(body), media="text/event-stream")
        else:
            status, reply = self.answer(body)
            write(handler, status, json.dumps(reply).encode())

    def stream(self, body: dict[str, Any]) -> bytes:
        """The same choices as events, in turn, as servers send them."""
        _, reply = self.answer(body)
        head = {**reply, "object": "chat.completion.chunk"}
        events = [
            {
                **head,
                "usage": None,
                "choices": [{**choice, "delta": choice["message"], "message": None}],
            }
            for choice in reply["choices"]
        ]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return "".join([*lines, "data: [DONE]\n\n"]).encode()

    def responses_api(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.texts[(len(self.requests) - 1) % len(self.texts)]
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
        head = {
            "id": "1",
            "object": "response",
            "created_at": 1,
            "model": body["model"],
            "status": "completed",
        }
        fixed = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        return {**head, **fixed, "output": [message]}

    def embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        vectors = enumerate(map(words_of, body["input"]))
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in vectors
        ]
        usage = {"prompt_tokens": 11, "total_tokens": 11}
        return {"object": "list", "data": data, "model": body["model"], "usage": usage}

    def answer(self, body: dict[str, Any]) -> Reply:
        n = 1 if self.ignores_n else body.get("n", 1)
        texts = [self.says(body, index) for index in range(n)]
        return completion(
            *texts, tokens=TOKENS if body.get("logprobs") and not self.ignores_logprobs else None
        )

    def says(self, body: dict[str, Any], index: int) -> str:
        if is_probe(body):
            return CHARACTERS if self.ignores_temperature else f"{len(self.requests)}x{index}"
        return self.texts[
            0 if self.ignores_temperature else (body.get("seed", 0) + index) % len(self.texts)
        ]

    @property
    def probes(self) -> list[dict[str, Any]]:
        """The requests that detect an ignored temperature."""
        return [body for body in self.requests if is_probe(body)]

    def chat(self, **options: Any) -> ChatOpenAI:
        return ChatOpenAI(
            model="served", base_url=self.url, api_key="none", max_retries=0, **options
        )


def is_probe(body: dict[str, Any]) -> bool:
    """Whether an invented story is asked for."""
    return any(message["content"] == INVENTED_STORY for message in body.get("messages", ()))


def completion(
    *texts: str, tokens: list[dict[str, Any]] | None = None, top: dict[str, float] | None = None
) -> Reply:
    """A chat completion with one choice per text; `top` has log-probabilities for its first token, likeliest first."""
    listed = [
        {"token": token, "logprob": logprob, "bytes": None}
        for token, logprob in (top or {}).items()
    ]
    content = [{**listed[0], "top_logprobs": listed}] if listed else tokens
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "logprobs": content and {"content": content},
        }
        for index, text in enumerate(texts)
    ]
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 2 * len(texts),
        "total_tokens": 11 + 2 * len(texts),
    }
    head = {"id": "1", "object": "chat.completion", "created": 1, "model": "served"}
    return 200, {**head, "choices": choices, "usage": usage}


def refusal(status: int = 400) -> Reply:
    """What a server says to an option that it does not take."""
    return status, {
        "error": {"message": "no such option", "type": "invalid_request_error", "code": None}
    }


def words_of(text: str) -> list[float]:
    """How often each word stands in a text, whatever the order: vectors whose cosines are known by hand."""
    vector = [0.0] * 256
    for word in text.lower().rstrip(".").split():
        vector[zlib.crc32(word.encode()) % 256] += 1
    return vector


def write(
    handler: BaseHTTPRequestHandler,
    status: int,
    content: bytes,
    *,
    media: str = "application/json",
    **headers: str,
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", media)
    handler.send_header("Content-Length", str(len(content)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


S = TypeVar("S", bound=Served)


@contextmanager
def served(
    texts: tuple[str, ...] = ("Paris", "It is Paris.", "Lyon"), **options: Any
) -> Iterator[Served]:
    with running(Served(texts, **options)) as state:
        yield state


@contextmanager
def answering(answer: Callable[[dict[str, Any]], Reply], **options: Any) -> Iterator[Served]:
    """Runs a server that answers with what `answer` makes of a request's body."""
    state = Served(**options)
    state.answer = answer
    with running(state):
        yield state


@contextmanager
def running(state: S) -> Iterator[S]:
    """Runs the server in a thread for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if state.keeps_alive else "HTTP/1.0"

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has closed a connection that was left open
                super().handle()

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            state.n_listed += 1
            content = json.dumps({"object": "list", "data": state.offers}).encode()
            write(self, 200 if self.path.endswith("/models") else 404, content)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append(body)
            with suppress(ConnectionError):  # the client may have given up
                state.handle(self, body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
