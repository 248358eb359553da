"""Prints what a council adds to the time of a call, as a multiple of a member's time, synchronously and not.

    python benchmarks/council_latency.py [--seconds 0.2] [--rounds 20] [--write FILE]

All models answer after the same time from memory. The bare agent calls its tool and says that it is done: two calls of
its model. With a council of three members around the tool the call is approved; or it is blocked, and the agent says
that it is done. What is printed is the median of the additional time, over that of one member.
"""

import argparse
import asyncio
import time
from typing import Any

import numpy as np
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from result_page import result_page

from coe_agents import CoECouncil, ModelAgent
from coe_agents.testing.driver import ScriptedDriver

KINDS: dict[str, dict[str, Any]] = {
    'tools=["pay"]': {"tools": ["pay"]},
    'tools=["pay"], adaptive=True': {"tools": ["pay"], "adaptive": True},
    "every turn": {"tools": None},
}


@tool
def pay(to: str, amount: float) -> str:
    """Sends money."""
    return "Sent."


class Slow(ScriptedDriver):
    """A model that takes its time."""

    seconds: float

    def _generate(self, *args: Any, **options: Any) -> Any:
        time.sleep(self.seconds)
        return super()._generate(*args, **options)

    async def _agenerate(self, *args: Any, **options: Any) -> Any:
        await asyncio.sleep(self.seconds)
        return super()._generate(*args, **options)


def paying(amount: float, seconds: float) -> Slow:
    def say(messages: list[Any]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("Done.")
        return AIMessage(
            "", tool_calls=[{"name": "pay", "args": {"to": "Ann", "amount": amount}, "id": "1"}]
        )

    return Slow(script=say, seconds=seconds)


def median_seconds(middleware: list[Any], args: argparse.Namespace, *, is_async: bool) -> float:
    agent = create_agent(paying(10, args.seconds), [pay], middleware=middleware)
    given: Any = {"messages": [("user", "Pay Ann ten euros.")]}
    times = []
    for _ in range(args.rounds):
        start = time.perf_counter()
        if is_async:
            asyncio.run(agent.ainvoke(given))
        else:
            agent.invoke(given)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.2, help="that each model takes")
    parser.add_argument("--rounds", type=int, default=20)
    with result_page():
        args = parser.parse_args()
        print(
            f"Additional time of a call, in times of a member ({args.seconds:g} s), three members:"
        )
        print(f"  {'council':30} {'form':6} approved  blocked")
        for name, options in KINDS.items():
            for form in ("sync", "async"):
                is_async = form == "async"
                bare = median_seconds([], args, is_async=is_async)
                added = []
                for amount in (10, 99):
                    members = [ModelAgent(each, paying(amount, args.seconds)) for each in "abc"]
                    council = CoECouncil(members, **options)
                    taken = median_seconds([council], args, is_async=is_async)
                    added.append((taken - bare) / args.seconds)
                print(f"  {name:30} {form:6} {added[0]:8.2f} {added[1]:8.2f}")


if __name__ == "__main__":
    main()
