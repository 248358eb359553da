"""A run of the graph on SQLite that can end by SIGKILL right after any of its writes; made for a process of its own."""

import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import Deciding, graph

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
NAMES = ("a", "b", "c")
THREAD = {"configurable": {"thread_id": "one"}}


class Diary:
    """The calls of the agents, kept in a file that outlives a SIGKILL, and the writes of this process."""

    def __init__(self, folder, *, dies_after=None):
        self.path = Path(folder, "calls")
        self.dies_after = dies_after
        self.n_writes, self.saved = (
            0,
            {tuple(call[:3]) for call in self.read() if call[3] == "said"},
        )
        self.answering = set()
        self.is_dying = False
        self.lock = threading.Lock()

    def read(self):
        return (
            [json.loads(line) for line in self.path.read_text().splitlines()]
            if self.path.exists()
            else []
        )

    def note(self, *call):
        with self.path.open("a") as file:
            file.write(json.dumps(call) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def may_answer(self, call):
        """Returns whether an agent may answer now; it is waited for then."""
        with self.lock:
            if not self.is_dying:
                self.answering.add(call)
            return not self.is_dying

    def wrote(self, writes=()):
        """Called when a write is on disk; returns whether it is the last before the kill.

        A write may come late: LangGraph waits for a checkpoint, not for the writes of the nodes before it. The kill
        must not cut off an agent that is answering then, which would rightly be asked again: use `await_answers`.
        """
        with self.lock:
            self.n_writes += 1
            self.is_dying = self.is_dying or self.n_writes == self.dies_after
            for channel, value in writes:
                if channel == "responses" and isinstance(value, list):
                    self.saved |= {
                        (row["agent"], row["round"], row["text"].rpartition(" ")[0])
                        for row in value
                    }
            return self.n_writes == self.dies_after

    def await_answers(self):
        """Waits until all answers that agents gave are on disk."""
        while not self.answering <= self.saved:
            time.sleep(0.005)


class NotedAgent(ScriptedAgent):
    """Its text says how often it answered before, so that a second call is seen; it answers after its predecessor.

    With the predecessor's responses on disk, that is, so that every place for the kill is there in every run.
    """

    def __init__(self, name, diary):
        super().__init__(name)
        self.diary = diary

    def _note(self, request, kind):
        self.diary.note(self.name, request["round"], request["question"], kind)

    def _must_wait(self, request):
        place = (request["round"], request["question"])
        before = NAMES[: NAMES.index(self.name)]
        return bool(before) and (before[-1], *place) not in self.diary.saved

    def _answer(self, request):
        said = [self.name, request["round"], request["question"], "said"]
        times = [call[:4] for call in self.diary.read()].count(said)
        self._note(request, "said")
        return ScriptedAgent(self.name, [f"{request['question']} {times}"] * 2).sample(request)

    def _await_turn(self, request):
        self._note(request, "asked")
        while self._must_wait(request) or not self.diary.may_answer(
            (self.name, request["round"], request["question"])
        ):
            time.sleep(0.005)

    def sample(self, request, config=None):
        self._await_turn(request)
        return self._answer(request)


class NotedSaver(SqliteSaver):
    diary: Diary

    def put(self, *args):
        config = super().put(*args)
        self._note()
        return config

    def put_writes(self, config, writes, *args):
        super().put_writes(config, writes, *args)
        self._note(writes)

    def _note(self, writes=()):
        if self.diary.wrote(writes):
            self.diary.await_answers()
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # until the signal is there


def run(folder, given, *, rounds=1, dies_after=None):
    """Asks, or resumes where `given` is None, and writes the result to `result.json`."""
    diary = Diary(folder, dies_after=dies_after)
    agents = [NotedAgent(name, diary) for name in NAMES]
    again, answer = (Decision(action, None, "as told") for action in ("another_round", "answer"))
    asking = graph(*agents, policy=Deciding(*[again] * (rounds - 1), answer), max_rounds=rounds)
    with closing(
        sqlite3.connect(Path(folder, "kept.sqlite"), check_same_thread=False)
    ) as connection:
        saver = NotedSaver(connection)
        saver.diary = diary
        result = asking.compile(checkpointer=saver).invoke(given, THREAD, durability="sync")
    plain = {key: result[key] for key in ("decision", "responses", "labels")}
    seen = {
        "messages": [message.text for message in result["messages"]],
        "n_writes": diary.n_writes,
    }
    Path(folder, "result.json").write_text(json.dumps({**plain, **seen}))


def calls(folder):
    noted = Diary(folder).read()
    return tuple(
        Counter(tuple(call[:3]) for call in noted if call[3] == kind) for kind in ("asked", "said")
    )
