"""Damages files in the ways that files are damaged: by hand, by a transfer, by another program, or with intent."""

import copy
import gzip
import json
import random
import re

HUGE = "9" * 400
DEEP = 3000
_JSON = r"""[null, true, 5, -1, 0, 2.5, 1e308, NaN, -Infinity, "", "=1+1", "\u0000", "\u001b[31mred", "\ud800", "../..",
    [], {}, ["a", 1], {"a": {"b": []}}]"""
_JSON_VALUES = [*json.loads(_JSON), 10**19, 10**399, "x" * 3000]
_TOML = r"""true -1 0 5 2.5 nan -inf 1e400 2026-11-22T07:24:15Z 07:24:15 [] {} [[[[]]]] unquoted "" "opnai" "a:b"
    "os:getcwd" "../../etc/passwd" "http://[::1" "http://user:pass-0123456789@host/v1" "\u0000" "\u001b[31m"
    {when=2026-11-22} {timeout=nan} {api_key="sk-planted-0123456789"} {seed="x",top_p=7} {a={b=1}} ["a",1]"""
_TOML_VALUES = [
    *_TOML.split(),
    HUGE,
    "[" * DEEP + "]" * DEEP,
    '"' + "x" * 3000 + '"',
    "'''\nlines\n'''",
]


_STRANGE = [
    b"\x00",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\x1b[2J",
    b"\n" * 50,
    b'"',
    b"}",
    b"[",
    b"{",
]
_EMPTY = [b"", b"\n", b" ", b"\x00" * 100, b"null", b"[]", b"{}", b"\xff"]
_CODES = ["utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"]
_NESTED = [b"[" * 100_000, b'{"a":' * 50_000, b"[" * 2000 + b"]" * 2000, b"a = " + b"[" * 50_000]
_N_WAYS = 8


def in_bytes(content, chance, n_ways=_N_WAYS):
    """Returns a copy that is damaged by one of the first so many ways, whatever the content is."""
    start, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    match chance.randrange(n_ways):
        case 0:
            damaged = bytearray(content)
            for place in (
                chance.choices(range(len(damaged)), k=chance.randint(1, 8)) if damaged else ()
            ):
                damaged[place] ^= 1 << chance.randrange(8)
            return bytes(damaged)
        case 1:
            return content[:start]
        case 2:
            return content[:start] + content[end:]
        case 3:
            return content[:start] + chance.choice(_STRANGE) + content[start:]
        case 4:
            return content.replace(b"\n", b"\r\n")
        case 5:
            return content.decode("utf-8", errors="replace").encode(
                chance.choice(_CODES), errors="replace"
            )
        case 6:
            return chance.choice(_EMPTY)
        case _:
            return chance.choice(_NESTED)


def _places(value, at=()):
    yield at
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from _places(item, (*at, key))


def _changed(value, chance):
    value = copy.deepcopy(value)
    places = [at for at in _places(value) if at]
    if not places:
        return chance.choice(_JSON_VALUES)
    *path, key = chance.choice(places)
    holder = value
    for each in path:
        holder = holder[each]
    match chance.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[f"{key}{chance.choice('sx_')}"] = holder.pop(key)
        case _:
            holder[key] = chance.choice(_JSON_VALUES)
    return value


def json_document(content, chance):
    return json.dumps(_changed(json.loads(content), chance)).encode()


def json_lines(content, chance):
    lines = content.splitlines()
    place = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            lines.insert(place, lines[chance.randrange(len(lines))])
        case 1:
            lines[place] = chance.choice(
                [b"[" * 100_000, b'{"a": ' * 9000, b"5", b'"x"', b"null", b"[]", b"{}", b"{"]
            )
        case _:
            lines[place] = json.dumps(_changed(json.loads(lines[place]), chance)).encode()
    return b"\n".join(lines) + b"\n"


def toml(content, chance):
    lines = content.decode().splitlines()
    fields = [place for place, line in enumerate(lines) if re.match(r"\s*[\w.]+ *=", line)]
    place = chance.choice(fields)
    name, _, value = lines[place].partition("=")
    match chance.randrange(8):
        case 0 | 1 | 2 | 3:
            lines[place] = f"{name}= {chance.choice(_TOML_VALUES)}"
        case 4:
            lines[place] = f"{name.strip()}{chance.choice('sx_')} ={value}"
        case 5:
            del lines[place]
        case 6:
            lines.insert(place, lines[place])
        case _:
            other = chance.choice(fields)
            lines[place] = f"{name}={lines[other].partition('=')[2]}"
    return "\n".join(lines).encode()


def damage(content, kind, seed):
    """Returns a damaged copy of a valid file: by one of the changes of its kind or of any file, or by two of them.

    `kind` is "toml", "json", "jsonl", "gz" (of JSON Lines), or "bytes". Equal seeds give equal damage.
    """
    chance = random.Random(seed)
    if kind == "gz" and chance.random() < 0.6:
        return gzip.compress(damage(gzip.decompress(content), "jsonl", seed), mtime=0)
    own = {"toml": toml, "json": json_document, "jsonl": json_lines}.get(kind)
    damaged = (
        own(content, chance)
        if own is not None and chance.random() < 0.7
        else in_bytes(content, chance)
    )
    return in_bytes(damaged, chance, _N_WAYS - 1) if chance.random() < 0.15 else damaged
