"""Owns the changes: small edits of a function, each of which some test should notice.

Changed are conditions, comparisons, returned values, early ends, filters, sets, and what is signed: what decides. What
words something is not changed: messages of errors, f-strings, logs.
"""

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, TypeVar

OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
"""What a comparison becomes: the other answer, or the other answer at the bound."""
SWAPPED = {"any": "all", "all": "any", "min": "max", "max": "min"}
PLAIN = {"reversed": "list", "sorted": "list", "set": None, "frozenset": None}
"""Calls that become another one, or their argument."""
GENERIC = frozenset({"dict", "list", "set", "tuple", "deque", "Counter", "Future"})
"""Classes whose arguments in brackets are types."""
BARE_METHODS = frozenset({"strip", "lower", "casefold", "copy"})
TRUTHS = frozenset({"any", "all", "bool", "isinstance", "compare_digest"})
"""Calls that return True or False."""
SIGNING = frozenset(
    (
        *(
            "make_mark",
            "_mark",
            "_mark_of",
            "mark_verdict",
            "is_mark",
            "has_mark",
            "fingerprint",
            "action_key",
            "key_of",
        ),
        *(
            "to_text",
            "new_action",
            "canonical",
            "dumps",
            "compare_digest",
            "digest",
            "_digest",
            "sha256",
            "new",
        ),
    )
)
"""Calls whose arguments are signed, or make a key: each is omitted, since a forgery would use what is not signed."""
SIGNED_NAMES = ("mark", "fingerprint", "_end_of", "key", "digest")
"""A function with one of these in its name makes what is signed, as all of the module `marks` does."""
TYPES = frozenset({"annotation", "returns", "decorator_list"})
"""Fields of a node that decide nothing when it runs."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Options = Iterator[tuple[str, ast.AST]]
_Node = TypeVar("_Node")


@dataclass(frozen=True)
class Change:
    """A change of a function.

    Attributes:
        module: The module below `coe_agents`, such as "policy.settle".
        function: The function's qualified name, such as "Register.start".
        kind: What was done.
        before: The expression, or the head of the statement, as it was.
        after: The same with the change.
        ordinal: Which one it is of equal changes. There are no line numbers, which an edit of other functions moves.
        source: A digest of the function, and of those around it.
        lines: The lines of what was changed.
        statement: The first line of its statement.
        code: The changed function, compiled as a module.
    """

    module: str
    function: str
    kind: str
    before: str
    after: str
    ordinal: int
    source: str
    lines: range = field(compare=False)
    statement: int = field(compare=False)
    code: CodeType = field(compare=False, repr=False)

    @property
    def key(self) -> tuple[str | int, ...]:
        """What the change is known by from one run to the next."""
        return self.module, self.function, self.kind, self.before, self.after, self.ordinal


@dataclass(frozen=True)
class _Place:
    """What is around a node.

    Attributes:
        module: The module.
        function: The qualified name of the function.
        statement: The first line of the statement.
        is_compared: Whether numbers matter: in a comparison or an index.
        is_signed: Whether it is part of what a mark or a key is made of.
        is_truth: Whether the function returns True or False.
        is_last: Whether it ends the function.
    """

    module: str
    function: str
    statement: int
    is_compared: bool = False
    is_signed: bool = False
    is_truth: bool = False
    is_last: bool = False


@dataclass(frozen=True)
class _Slot:
    """A node and where its parent holds it, so that another one can be put there for a while."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    place: _Place

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def iter_changes(module: str, source: str, filename: str = "changed") -> Iterator[Change]:
    """Yields the changes of all functions and methods of a module, of nested ones too."""
    for owners, function in _iter_functions(ast.parse(source).body, ()):
        yield from _iter_of_function(module, owners, function, filename)


def _iter_functions(
    body: Sequence[ast.stmt], owners: tuple[ast.ClassDef, ...]
) -> Iterator[tuple[tuple[ast.ClassDef, ...], Function]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _iter_functions(statement.body, (*owners, statement))
        elif isinstance(statement, Function):
            yield owners, statement


def _iter_of_function(
    module: str, owners: Sequence[ast.ClassDef], function: Function, filename: str
) -> Iterator[Change]:
    name = ".".join([*(owner.name for owner in owners), function.name])
    source = hashlib.sha256(ast.unparse(function).encode()).hexdigest()[:16]
    slots = list(_iter_slots(function, _place_in(module, name, function)))
    enclosed = _enclose(owners, function)
    seen, equal = {ast.dump(function)}, Counter[tuple[str, ...]]()
    for slot in slots:
        for kind, node in _options(slot.node, slot.place):
            words = (slot.place.function, kind, show(slot.node), show(node))
            slot.put(ast.copy_location(node, slot.node))
            if (
                dumped := ast.dump(function)
            ) not in seen:  # e.g. an early end omitted is a condition that is never true
                seen.add(dumped)
                code = compile(
                    ast.fix_missing_locations(enclosed), filename, "exec", dont_inherit=True
                )
                yield Change(
                    module,
                    *words,
                    equal[words],
                    source,
                    _lines_of(slot),
                    slot.place.statement,
                    code,
                )
                equal[words] += 1
            slot.put(slot.node)


def _enclose(owners: Sequence[ast.ClassDef], function: Function) -> ast.Module:
    """Returns a module of the function in its classes and nothing else: its code has the same names there."""
    if owners and any(
        isinstance(node, ast.Name) and node.id == "super" for node in ast.walk(function)
    ):
        # a change may omit the call of `super`, but code can be exchanged only for code with the same closure
        closure = ast.Expr(ast.Name("__class__", ast.Load()))
        function.body.append(ast.If(ast.Constant(False), [closure], []))
    statement: ast.stmt = function
    for owner in reversed(owners):
        around = copy.copy(owner)
        around.bases, around.keywords, around.decorator_list, around.body = [], [], [], [statement]
        statement = around
    return ast.Module([statement], [])


def _iter_slots(node: ast.AST, place: _Place) -> Iterator[_Slot]:
    """Yields the nodes below one, but for what words something, and types."""
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if name in TYPES or not isinstance(child, ast.AST) or _is_wording(child):
                continue
            is_last = isinstance(node, Function) and index == len(node.body) - 1
            around = _place_of(child, node, replace(place, is_last=is_last))
            yield _Slot(child, node, name, index if isinstance(value, list) else None, around)
            yield from _iter_slots(child, around)


def _is_wording(node: ast.AST) -> bool:
    """Whether it is a message, a docstring, a line of a log, a type, or a keyword that the linter asks for."""
    match node:
        case ast.JoinedStr() | ast.arguments() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger")))):
            return True
        case ast.keyword(arg="strict" | "stacklevel"):
            return True
        case ast.Subscript(value=ast.Name(id=name)) if name in GENERIC:  # such as dict[str, int]()
            return True
    return False


def _place_of(node: ast.AST, parent: ast.AST, place: _Place) -> _Place:
    if isinstance(node, Function):
        return _place_in(place.module, f"{place.function}.{node.name}", node)
    return replace(
        place,
        statement=node.lineno if isinstance(node, ast.stmt) else place.statement,
        is_compared=place.is_compared
        or isinstance(parent, ast.Compare | ast.Subscript | ast.Slice),
        is_signed=place.is_signed or (isinstance(parent, ast.Call) and _name_of(parent) in SIGNING),
    )


def _place_in(module: str, name: str, function: Function) -> _Place:
    return _Place(
        module,
        name,
        function.lineno,
        is_signed=module.endswith("marks") or any(part in function.name for part in SIGNED_NAMES),
        is_truth=function.returns is not None and ast.unparse(function.returns) == "bool",
    )


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _lines_of(slot: _Slot) -> range:
    """Returns the lines that run where a test reaches the node: of a statement with a body, those of its head."""
    match slot.node:
        case ast.If(test=head) | ast.While(test=head):
            return range(slot.node.lineno, (head.end_lineno or head.lineno) + 1)
        case ast.comprehension(target=target, ifs=[*_, last]):
            return range(target.lineno, (last.end_lineno or last.lineno) + 1)
        case ast.ExceptHandler(lineno=line):
            return range(line, line + 1)
    assert isinstance(slot.node, ast.expr | ast.stmt)
    return range(slot.node.lineno, (slot.node.end_lineno or slot.node.lineno) + 1)


def show(node: ast.AST) -> str:
    """Returns a node as code: of a statement with a body, its head."""
    if isinstance(node, ast.comprehension):
        node = ast.GeneratorExp(ast.Name("_"), [node])
    lines = ast.unparse(ast.fix_missing_locations(node)).split("\n")
    if isinstance(node, ast.ExceptHandler):
        return " ".join(line.strip() for line in lines[:2])
    return lines[0] if isinstance(node, ast.If | ast.While) else "\n".join(lines)


def _options(node: ast.AST, place: _Place) -> Options:
    """Yields what could stand in the place of a node, each with its kind."""
    match node:
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Constant):
            if not isinstance(node, ast.While):  # it would not end
                yield "always True", _with(node, test=ast.Constant(True))
            yield "always False", _with(node, test=ast.Constant(False))
        case ast.comprehension(ifs=filters):
            for i, others in enumerate(_without_each(filters)):
                yield "filter omitted", _with(node, ifs=others)
                yield (
                    "filter False",
                    _with(node, ifs=[*others[:i], ast.Constant(False), *others[i:]]),
                )
        case ast.ExceptHandler():
            yield "handler raises", _with(node, body=[ast.Raise()])
        case ast.stmt():
            yield from _of_statement(node, place)
        case ast.expr():
            yield from _of_expression(node, place)


def _of_expression(node: ast.expr, place: _Place) -> Options:
    match node:
        case ast.Compare():
            yield from _of_comparison(node)
        case ast.BoolOp(values=values):
            yield "and/or", _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
            for some in _without_each(values):
                yield "part omitted", _with(node, values=some) if len(some) > 1 else some[0]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not omitted", operand
        case ast.Constant():
            yield from _of_constant(node, place)
        case ast.BinOp():
            yield from _of_operation(node, place)
        case ast.Call():
            yield from _of_call(node)
        case ast.List() | ast.Tuple() | ast.Set():
            yield from _of_display(node, place)
        case ast.Dict(keys=keys, values=values):
            for some_keys, some in zip(_without_each(keys), _without_each(values), strict=True):
                yield "entry omitted", _with(node, keys=some_keys, values=some)


def _of_constant(node: ast.Constant, place: _Place) -> Options:
    match node.value:
        case bool(value):
            yield "boolean", ast.Constant(not value)
        case int(value) if place.is_compared:
            yield "number", ast.Constant(value + 1)
            if value:
                yield "number", ast.Constant(value - 1)


def _of_comparison(node: ast.Compare) -> Options:
    for i, operator in enumerate(node.ops):
        yield (
            "compare",
            _with(node, ops=[*node.ops[:i], OPPOSITE[type(operator)](), *node.ops[i + 1 :]]),
        )
    match node:
        case ast.Compare(left=ast.Tuple(elts=left), comparators=[ast.Tuple(elts=right)]) if len(
            left
        ) == len(right):
            for some, others in zip(_without_each(left), _without_each(right), strict=True):
                pair = [_with(node.comparators[0], elts=others)]
                yield (
                    "tuple element omitted",
                    _with(node, left=_with(node.left, elts=some), comparators=pair),
                )
        case ast.Compare(ops=[ast.LtE() | ast.GtE()]):
            yield "to ==", _with(node, ops=[ast.Eq()])


def _of_operation(node: ast.BinOp, place: _Place) -> Options:
    match node.op:
        case ast.BitOr() | ast.BitAnd():
            if (
                not isinstance(node.right, ast.Constant) and show(node.right) != "str"
            ):  # else it is a type
                yield "set operand", node.left
                yield "set operand", node.right
        case ast.Add() | ast.Sub():
            yield "operand omitted", node.left
            if isinstance(node.op, ast.Add):
                yield "operand omitted", node.right
            if place.is_compared:
                yield (
                    "+/-",
                    _with(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()),
                )


def _of_call(node: ast.Call) -> Options:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield "any/all", _with(node, func=ast.Name(SWAPPED[name], ast.Load()))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in PLAIN and not isinstance(
            argument, ast.Starred
        ):
            plain = PLAIN[name]
            yield (
                "call omitted",
                ast.Call(ast.Name(plain, ast.Load()), [argument], []) if plain else argument,
            )
        case ast.Call(
            func=ast.Name(id="isinstance"), args=[value, ast.Tuple(elts=classes) as all_classes]
        ):
            for some in _without_each(classes):
                yield "class omitted", _with(node, args=[value, _with(all_classes, elts=some)])
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[]) if name in BARE_METHODS:
            yield "method omitted", value
    if _name_of(node) in SIGNING:
        for i, argument in enumerate(node.args):
            if not isinstance(argument, ast.Starred | ast.Constant):
                arguments = [*node.args[:i], ast.Constant(None), *node.args[i + 1 :]]
                yield "signed argument to None", _with(node, args=arguments)
        for keywords in _without_each(node.keywords):
            yield "keyword omitted", _with(node, keywords=keywords)


def _of_display(node: ast.List | ast.Tuple | ast.Set, place: _Place) -> Options:
    """Yields a display without each of its elements, where it is a set, signed, or puts several together."""
    if not isinstance(node, ast.Set) and not isinstance(node.ctx, ast.Load):
        return
    matters = (
        isinstance(node, ast.Set)
        or place.is_signed
        or any(isinstance(each, ast.Starred) for each in node.elts)
    )
    if matters and not (isinstance(node, ast.Set) and len(node.elts) == 1):
        for some in _without_each(node.elts):
            yield "element omitted", _with(node, elts=some)


def _of_statement(node: ast.stmt, place: _Place) -> Options:
    match node:
        case ast.Return(value=value):
            yield from _of_returned(value, place)
            if not place.is_last:
                yield "statement omitted", ast.Pass()
        case ast.Continue():
            yield "continue/break", ast.Break()
            yield "statement omitted", ast.Pass()
        case ast.Break():
            yield "continue/break", ast.Continue()
            yield "statement omitted", ast.Pass()
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield "statement omitted", ast.Pass()
        case ast.Assign(targets=targets) if any(
            isinstance(each, ast.Subscript | ast.Attribute) for each in targets
        ):
            yield "statement omitted", ast.Pass()


def _of_returned(value: ast.expr | None, place: _Place) -> Options:
    match value:
        case None | ast.Constant(value=None | bool()):
            return
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            is_truth = True
        case _:
            is_truth = place.is_truth or _name_of(value) in TRUTHS
    for constant in (True, False) if is_truth else (None,):
        yield f"return {constant}", ast.Return(ast.Constant(constant))


def _with(node: ast.AST, **fields: object) -> Any:
    """Returns a copy of a node with other fields; what is below stays the same."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _without_each(values: list[_Node]) -> Iterator[list[_Node]]:
    for i in range(len(values)):
        yield [*values[:i], *values[i + 1 :]]
