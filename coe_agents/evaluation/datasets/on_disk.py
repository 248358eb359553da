"""Owns questions that stay on the disk: each once, in the order in which a run asks them, however many there are."""

import json
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import TypeVar, overload

from coe_agents.evaluation.datasets.question import Question, can_be_example, draw_key, from_plain, merge
from coe_agents.evaluation.samples.folder import open_scratch

T = TypeVar("T")
_BATCH = 256


class DiskSequence(Sequence[T]):
    """Values in the order of their keys, in a temporary file that ends with the object; equal keys are one value.

    The file is one of `open_scratch`; while it is written it takes about three times the size of the values. Memory
    holds a cache of a few MB, and nothing for each value.

    Args:
        values: Read once, and not kept.
        key: Returns what they are sorted by.
        encode: Returns a value as text, and `decode` a text as the value.
        decode: See `encode`.
        merge: Returns one value for those of the same key, in the order in which they were read; it may raise.
        other_key: Returns what `by_other_key` sorts by, None to leave a value out there.

    Example:
        >>> numbers = DiskSequence([3, 1, 2, 3], key=lambda n: bytes([n]), encode=str, decode=int)
        >>> list(numbers), numbers[1], numbers[1:], len(numbers), list(numbers.first(2))
        ([1, 2, 3], 2, [2, 3], 3, [1, 2])
    """

    def __init__(
        self,
        values: Iterable[T],
        *,
        key: Callable[[T], bytes],
        encode: Callable[[T], str],
        decode: Callable[[str], T],
        merge: Callable[[Sequence[T]], T] = itemgetter(0),
        other_key: Callable[[T], bytes | None] = lambda value: None,
    ) -> None:
        self._decode = decode
        self._whole: DiskSequence[T] | None = None
        self._file = open_scratch()
        self._end = weakref.finalize(self, self._file.close)
        self._file.execute("CREATE TABLE read (key BLOB, text TEXT, other BLOB)")
        rows = ((key(value), encode(value), other_key(value)) for value in values)
        self._file.execute("BEGIN")
        self._file.executemany("INSERT INTO read VALUES (?, ?, ?)", rows)

        def sorted_rows() -> Iterator[tuple[bytes, str, bytes | None]]:
            found = self._file.execute("SELECT key, text, other FROM read ORDER BY key, rowid")
            for place, group in groupby(found, key=itemgetter(0)):
                (_, text, other), *more = group
                if more:
                    value = merge([decode(text), *(decode(each) for _, each, _ in more)])
                    text, other = encode(value), other_key(value)
                yield place, text, other

        self._file.execute("CREATE TABLE kept (place INTEGER PRIMARY KEY, key BLOB, text TEXT, other BLOB)")
        self._file.executemany("INSERT INTO kept (key, text, other) VALUES (?, ?, ?)", sorted_rows())
        self._file.execute("DROP TABLE read")
        self._file.execute("COMMIT")
        self._n: int
        (self._n,) = self._file.execute("SELECT COUNT(*) FROM kept").fetchone()

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, int):
            place = range(self._n)[place]
            return self._between(place, place + 1)[0]
        start, stop, step = place.indices(self._n)
        return self._between(start, stop)[::step] if step > 0 else self[:][place]

    def __iter__(self) -> Iterator[T]:
        for start in range(0, self._n, _BATCH):
            yield from self._between(start, min(start + _BATCH, self._n))

    def first(self, n: int | None) -> "DiskSequence[T]":
        """Returns the first `n` values, all for None, in the same file."""
        if n is None or n >= self._n:
            return self
        part = copy(self)
        part._n, part._whole = n, self  # the file ends with the whole
        return part

    def by_other_key(self) -> Iterator[T]:
        """Yields the values in the order of the other key, those without one left out."""
        wanted = "other IS NOT NULL AND place <= ?"
        for (text,) in self._file.execute(f"SELECT text FROM kept WHERE {wanted} ORDER BY other", (self._n,)):
            yield self._decode(text)

    def place_of(self, key: bytes) -> int | None:
        """Returns the place of the value with a key; None if no value has it."""
        place = bisect_left(range(self._n), key, key=self._key_at)
        return place if place < self._n and self._key_at(place) == key else None

    def _key_at(self, place: int) -> bytes:
        (key,) = self._file.execute("SELECT key FROM kept WHERE place = ?", (place + 1,)).fetchone()
        return bytes(key)

    def _between(self, start: int, stop: int) -> list[T]:
        found = self._file.execute("SELECT text FROM kept WHERE place > ? AND place <= ?", (start, stop))
        return [self._decode(text) for (text,) in found]


@dataclass(frozen=True, slots=True)
class QuestionsOnDisk:
    """The questions of a dataset, each once, on the disk, in an order that a seed draws.

    Attributes:
        source: The file, or the dataset's name on the hub with its configuration and split.
        questions: In the order in which they are asked.
        n_records: How many records were read: more than questions where some repeat one, as in TriviaQA on the hub.
    """

    source: str
    questions: DiskSequence[Question]
    n_records: int

    def examples(self, k: int, *, with_context: bool = False) -> list[Question]:
        """Returns enough questions for `examples_from` to find `k` examples for any question.

        A prompt never shows a question of its own wording, so the first questions with k + 1 wordings are enough.
        """
        shown, wordings = list[Question](), set[str]()
        for question in self.questions.by_other_key() if k else ():
            if not can_be_example(question, with_context=with_context):
                continue
            shown.append(question)
            wordings.add(question.question)
            if len(wordings) > k:
                break
        return shown


def on_disk(questions: Iterable[Question], *, seed: int) -> DiskSequence[Question]:
    """Returns questions in the order that a seed draws (`draw_key`), each id once.

    Raises:
        ConflictError: If two of one id differ in more than their references.
    """
    return DiskSequence(
        questions,
        key=lambda question: draw_key("asked", seed, question.id),
        encode=lambda question: json.dumps(asdict(question)),
        decode=lambda text: from_plain(json.loads(text)),
        merge=merge,
        other_key=lambda question: draw_key("example", seed, question.id) if question.references else None,
    )
