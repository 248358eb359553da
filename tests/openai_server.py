"""A local HTTP server that speaks as much of OpenAI's protocol as a test tells it to, and records what it is asked."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_openai import ChatOpenAI

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


class OpenAIServer:
    """Answers each POST with what `answer` makes of its body: a status and a JSON object."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                requests.append(body)
                status, answered = answer(body)
                data = json.dumps(answered).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> "OpenAIServer":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def chat(self, **options: Any) -> ChatOpenAI:
        base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        return ChatOpenAI(model="served", base_url=base_url, api_key="none", max_retries=0, **options)


def completion(*texts: str, top: dict[str, float] | None = None) -> tuple[int, dict[str, Any]]:
    """A chat completion with one choice per text; `top` lists log-probabilities of the first token, likeliest first."""
    listed = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in (top or {}).items()]
    logprobs = {"content": [{**listed[0], "top_logprobs": listed}]} if listed else None
    choices = [
        {"index": i, "finish_reason": "stop", "logprobs": logprobs, "message": {"role": "assistant", "content": text}}
        for i, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    return 200, {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "served",
        "choices": choices,
        "usage": usage,
    }


def refusal(status: int = 400) -> tuple[int, dict[str, Any]]:
    """What a server says to an option that it does not take."""
    return status, {"error": {"message": "no such option", "type": "invalid_request_error", "code": None}}
