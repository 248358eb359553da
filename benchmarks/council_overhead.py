"""Prints what a council costs over the bare calls of its models: the CPU time of one turn, synchronously and not.

    python benchmarks/council_overhead.py [--members 3] [--samples 1] [--rounds 200] [--write FILE]

A turn is one model call of an agent behind `CoECouncil`: the driver proposes a payment, the members, `ModelAgent`s of
one sample each, propose as well, and the policy decides. The bare calls are the same requests to the same models, with
the same tools bound, one after another. The models answer at once from memory. Both are measured in turn, in CPU time
of the process (all threads), and the medians are compared. Exits with 1 if the difference exceeds 3 ms.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from result_page import result_page

from coe_agents import CoECouncil, ModelAgent, SupportPolicy

BOUND_MS = 3.0
WARM_UP = 20


@tool
def transfer_money(to: str, amount: float, currency: str = "EUR", note: str | None = None) -> str:
    """Sends money."""
    return f"sent {amount} {currency} to {to}"


@tool
def balance(account: str) -> str:
    """Tells the balance of an account."""
    return "100"


TOOLS = [transfer_money, balance]
MESSAGES = [
    SystemMessage("You are a bank's assistant."),
    HumanMessage("Send 10 euros to Ann, please."),
]


class Ready(BaseChatModel):
    """A model whose answer is ready."""

    @property
    def _llm_type(self) -> str:
        return "ready"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[*tools])

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        call = {"name": "transfer_money", "args": {"to": "Ann", "amount": 10}, "id": "c1"}
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage("I pay.", tool_calls=[call]))]
        )

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        return self._generate(messages)


def median_ms(times: list[float]) -> float:
    return 1000 * float(np.median(times[WARM_UP:]))


def time_sync(
    council: CoECouncil, request: Callable[[], Any], bare: Callable[[], Any], rounds: int
) -> Any:
    def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
        messages = [request.system_message, *request.messages]
        return ModelResponse([request.model.bind_tools(request.tools).invoke(messages)])

    ours, alone = [], []
    for _ in range(rounds + WARM_UP):
        start = time.process_time()
        response = council.wrap_model_call(request(), handler)
        ours.append(time.process_time() - start)
        assert response.model_response.result[0].tool_calls
        start = time.process_time()
        bare()
        alone.append(time.process_time() - start)
    return median_ms(ours), median_ms(alone)


async def time_async(
    council: CoECouncil, request: Callable[[], Any], bare: Callable[[], Awaitable[Any]], rounds: int
) -> Any:
    async def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
        messages = [request.system_message, *request.messages]
        return ModelResponse([await request.model.bind_tools(request.tools).ainvoke(messages)])

    ours, alone = [], []
    for _ in range(rounds + WARM_UP):
        start = time.process_time()
        response = await council.awrap_model_call(request(), handler)
        ours.append(time.process_time() - start)
        assert response.model_response.result[0].tool_calls
        start = time.process_time()
        await bare()
        alone.append(time.process_time() - start)
    return median_ms(ours), median_ms(alone)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--write", metavar="FILE", help="writes the page of results")
    args = parser.parse_args()
    models = [Ready() for _ in range(args.members)]
    agents = [
        ModelAgent(f"m{place}", model, n_samples=args.samples) for place, model in enumerate(models)
    ]
    council, driver = CoECouncil(agents, policy=SupportPolicy(0.6)), Ready()

    def request() -> ModelRequest[Any]:
        system, *messages = MESSAGES
        return ModelRequest(model=driver, messages=messages, system_message=system, tools=TOOLS)

    asked = [driver, *(model for model in models for _ in range(args.samples))]

    def bare() -> list[Any]:
        return [model.bind_tools(TOOLS).invoke(MESSAGES) for model in asked]

    async def abare() -> list[Any]:
        return [await model.bind_tools(TOOLS).ainvoke(MESSAGES) for model in asked]

    with result_page():
        print("| | council, ms | bare calls, ms | more, ms | ratio |\n|---|---|---|---|---|")
        worst = 0.0
        for kind, (ours, alone) in (
            ("sync", time_sync(council, request, bare, args.rounds)),
            ("async", asyncio.run(time_async(council, request, abare, args.rounds))),
        ):
            print(
                f"| {kind} | {ours:.2f} | {alone:.2f} | {ours - alone:.2f} | {ours / alone:.2f} |"
            )
            worst = max(worst, ours - alone)
        print(
            f"\n{args.members} members of {args.samples} sample each; at most {BOUND_MS:g} ms more: ",
            end="",
        )
        print("yes" if worst <= BOUND_MS else "no")
    return int(worst > BOUND_MS)


if __name__ == "__main__":
    raise SystemExit(main())
