"""Owns files: writes that succeed completely or change nothing, and the reading of JSON and TOML that others wrote.

Whatever such JSON or TOML holds, the only error is a `ValueError` that says what is wrong.
"""

import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_DEEPEST = 100
"""Levels of nesting; no file of ours has ten, and code that walks a value must not exhaust the stack."""
_LARGEST = 2**63
_TOO_LONG = "an integer has more than TOML's 64 bits. Write a smaller one"


def missing_model(name: str) -> str | None:
    """Returns what is missing where a local model's name is a path; None if it is there, or may be the id of a hub.

    A name that ends in ".gguf" is a file. A folder is told from a hub id ("owner/name") by how it is written.
    """
    path = Path(name)
    is_file = path.suffix == ".gguf"
    is_folder = name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
    if is_file and not path.is_file():
        return f'the file "{name}" does not exist'
    if is_folder and not is_file and not path.is_dir():
        return f'the folder "{name}" does not exist'
    return None


def write(path: Path, content: bytes) -> None:
    """Writes a file in one step: a reader finds the old content or the new one, also after a crash or on a full disk.

    A link stays one, and a file keeps its permissions. A pipe or a device gets the content directly.
    """
    write_chunks(path, [content])


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file in one step, as `write` does; the chunks may be read from the old one."""
    if path.exists() and not path.is_file():
        with _naming(path), path.open("wb") as stream:
            stream.writelines(chunks)
        return
    place = Path(os.path.realpath(path))
    draft = place.with_name(f"{place.name}.draft")
    with _naming(path, draft):
        try:
            with draft.open("wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            if place.exists():
                shutil.copymode(place, draft)
            draft.replace(place)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise

    # the new name, too, is on the disk
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(place.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def append(file: int, content: bytes, *, path: Path, sync: bool = False) -> None:
    """Appends all of it to an open file, or nothing; with `sync` it is on the disk when this returns."""
    size = os.fstat(file).st_size
    left = memoryview(content)
    with _naming(path):
        try:
            while left:
                n_written = os.write(file, left)
                left = left[n_written:]
            if sync:
                os.fsync(file)
        except BaseException:
            os.ftruncate(file, size)  # what comes next must not follow an incomplete line
            raise


@contextmanager
def _naming(path: Path, draft: Path | None = None) -> Iterator[None]:
    """Puts the file's name into an error without a name, or with that of the draft."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, str(draft)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def parse_json(text: str | bytes, *, is_strict: bool = False, **options: Any) -> Any:
    """Returns what `json.loads` returns.

    `is_strict` refuses what programs read differently: a name that appears twice in an object, NaN and the infinities,
    also where a number, such as 1e999, is read as one.

    Raises:
        ValueError: If it is not JSON, or is nested more than 100 levels deep.
    """
    if is_strict:
        options |= {
            "object_pairs_hook": with_unique_names,
            "parse_constant": _refuse_constant,
            "parse_float": _finite,
        }
    try:
        value = json.loads(text, **options)
    except RecursionError as error:
        raise _too_deep() from error
    if _n_opened(text) > _DEEPEST:
        _check_depth(value)
    return value


def parse_strict_object(text: str | bytes) -> dict[str, Any] | None:
    """Returns a JSON object, read strictly, of text that is Unicode; None where it is anything else."""
    try:
        value = parse_json(text, is_strict=True)
        json.dumps(value, ensure_ascii=False).encode()  # which refuses half of a surrogate pair
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_toml(text: str) -> dict[str, Any]:
    r"""Returns what `tomllib.loads` returns.

    Raises:
        ValueError: If it is not TOML, is nested more than 100 levels deep, or holds an integer of more than 64 bits,
            which TOML does not have.
    """
    import tomllib  # here, since a graph without files does not need it

    try:
        value = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep() from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # thousands of digits
        raise ValueError(_TOO_LONG) from error
    _check_depth(value)
    if _holds_long_integer(value):
        raise ValueError(_TOO_LONG)
    return value


def with_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses a name that appears twice in an object, since programs differ in which value they read."""
    value = dict(pairs)
    if len(value) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = next(name for name, times in counted.items() if times > 1)
        raise ValueError(f'each field must appear once; got "{twice:.40}" twice. Omit one')
    return value


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        _refuse_constant(written)
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"a number must be finite; got {name:.40}. Write a number or null")


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {_DEEPEST} levels deep. Flatten it")


def _n_opened(text: str | bytes) -> int:
    """Returns how many brackets are opened: the text is nested at most as deep."""
    if isinstance(text, bytes):
        return text.count(b"[") + text.count(b"{")
    return text.count("[") + text.count("{")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner = list[Any]()
        for holder in level:
            inner += _items(holder)
        if not inner:
            return
        level = inner
    raise _too_deep()


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list):
        return value
    return []


def _holds_long_integer(value: Any) -> bool:
    if isinstance(value, int):
        return not -_LARGEST <= value < _LARGEST
    return any(map(_holds_long_integer, _items(value)))
