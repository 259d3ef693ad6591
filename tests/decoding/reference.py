"""A small interpreter of decoded instructions over ordinary Python objects: what the opcodes mean, written as code.

    run(function, 1, 2) == function(1, 2)

Functions that interpreted code makes are interpreted, too (except generators, which are left to CPython).
"""

import builtins
import collections.abc
import inspect
import operator
import types

from cuda_device.bytecode.decode import decode
from cuda_device.bytecode.instructions import TERMINATORS, Opcode

UNDEFINED = object()

BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "<<=": operator.ilshift, ">>=": operator.irshift, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}  # fmt: skip
COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_}
BUILD = {"tuple": tuple, "list": list, "string": "".join}
CONVERT = {"": lambda value: value, "s": str, "r": repr, "a": ascii}


def run(function, *args, **kwargs):
    """Calls `function` through this interpreter."""
    names = function.__code__.co_freevars
    cells = dict(zip(names, function.__closure__ or (), strict=True))
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    # inspect renames the parameter of a comprehension's function, which is no identifier.
    arguments = {".0" if name == "implicit0" else name: value for name, value in bound.arguments.items()}
    return Frame(function, arguments, cells).run()


class Frame:
    """One call: the fast locals, the cells, the stack."""

    def __init__(self, function, arguments, cells):
        self.code = function.__code__
        self.globals = function.__globals__
        self.locals = dict(arguments)
        self.cells = cells
        for name in set(self.code.co_cellvars) - set(cells):  # a comprehension's is called like one that was captured
            self.cells[name] = types.CellType(arguments[name]) if name in arguments else types.CellType()
        self.stack = []

    def run(self):
        instructions = decode(self.code)
        position = 0
        while True:
            instruction = instructions[position]
            if instruction.opcode is Opcode.RETURN:
                result = self.stack.pop()
                assert not self.stack, "something is left on the stack"
                return result
            jumps = getattr(self, instruction.opcode.name)(instruction.argument)
            position = instruction.target if jumps is True else position + 1

    def take(self, count):
        """Pops so many values, in their order from the bottom."""
        values = self.stack[len(self.stack) - count :]
        assert len(values) == count, "too little on the stack"
        del self.stack[len(self.stack) - count :]
        return values

    def CONST(self, value):
        self.stack.append(value)

    def LOAD(self, name):
        value = self.locals.get(name, UNDEFINED)
        if value is UNDEFINED:
            raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
        self.stack.append(value)

    def STORE(self, name):
        self.locals[name] = self.stack.pop()

    def DELETE(self, name):
        self.LOAD(name)
        self.stack.pop()
        del self.locals[name]

    def LOAD_AND_CLEAR(self, name):
        self.stack.append(self.locals.pop(name, UNDEFINED))

    def LOAD_CELL(self, name):
        try:
            self.stack.append(self.cells[name].cell_contents)
        except ValueError:
            raise NameError(f"cannot access free variable '{name}'") from None

    def STORE_CELL(self, name):
        self.cells[name].cell_contents = self.stack.pop()

    def DELETE_CELL(self, name):
        del self.cells[name].cell_contents

    def CLOSURE(self, name):
        self.stack.append(self.cells[name])

    def SAVE_CELL(self, name):
        self.stack.append(self.cells[name])
        self.cells[name] = types.CellType()

    def RESTORE_CELL(self, name):
        self.cells[name] = self.stack.pop()

    def GLOBAL(self, name):
        value = self.globals[name] if name in self.globals else getattr(builtins, name, UNDEFINED)
        if value is UNDEFINED:
            raise NameError(f"name '{name}' is not defined")
        self.stack.append(value)

    def IMPORT(self, name):
        level, names = self.take(2)
        self.stack.append(builtins.__import__(name, self.globals, None, names, level))

    def IMPORT_FROM(self, name):
        self.stack.append(getattr(self.stack[-1], name))

    def UNARY(self, operation):
        self.stack.append(UNARY[operation](self.stack.pop()))

    def BINARY(self, operation):
        self.stack.append(BINARY[operation](*self.take(2)))

    def COMPARE(self, operation):
        self.stack.append(COMPARE[operation](*self.take(2)))

    def IS(self, inverted):
        left, right = self.take(2)
        self.stack.append((left is right) is not inverted)

    def CONTAINS(self, inverted):
        item, container = self.take(2)
        self.stack.append((item in container) is not inverted)

    def SUBSCR(self, _):
        container, key = self.take(2)
        self.stack.append(container[key])

    def STORE_SUBSCR(self, _):
        value, container, key = self.take(3)
        container[key] = value

    def BUILD_SLICE(self, count):
        self.stack.append(slice(*self.take(count)))

    def ATTR(self, name):
        self.stack.append(getattr(self.stack.pop(), name))

    def STORE_ATTR(self, name):
        value, owner = self.take(2)
        setattr(owner, name, value)

    def CALL(self, count):
        self.CALL_KW((count, ()))

    def CALL_KW(self, argument):
        count, names = argument
        function, *values = self.take(count + 1)
        positional = values[: count - len(names)]
        self.stack.append(function(*positional, **dict(zip(names, values[len(positional) :], strict=True))))

    def CALL_EX(self, has_mapping):
        mapping = self.stack.pop() if has_mapping else {}
        function, values = self.take(2)
        self.stack.append(function(*values, **mapping))

    def MAKE_FUNCTION(self, extras):
        *values, code = self.take(len(extras) + 1)
        given = dict(zip(extras, values, strict=True))
        function = types.FunctionType(code, self.globals, code.co_name, given.get("defaults"), given.get("closure"))
        function.__kwdefaults__ = given.get("kwdefaults")
        if code.co_flags & inspect.CO_GENERATOR:
            self.stack.append(function)
        else:
            self.stack.append(lambda *args, **kwargs: run(function, *args, **kwargs))

    def BUILD(self, argument):
        kind, count = argument
        if kind == "map":
            values = self.take(2 * count)
            self.stack.append(dict(zip(values[::2], values[1::2], strict=True)))
        else:
            self.stack.append(BUILD[kind](self.take(count)))

    def BUILD_KEYED(self, keys):
        self.stack.append(dict(zip(keys, self.take(len(keys)), strict=True)))

    def LIST_APPEND(self, position):
        item = self.stack.pop()
        self.stack[-position].append(item)

    def LIST_EXTEND(self, position):
        items = self.stack.pop()
        self.stack[-position].extend(items)

    def LIST_TO_TUPLE(self, _):
        self.stack.append(tuple(self.stack.pop()))

    def MAP_ADD(self, position):
        key, value = self.take(2)
        self.stack[-position][key] = value

    def MAP_UPDATE(self, position):
        mapping = self.stack.pop()
        self.stack[-position].update(mapping)

    def MAP_MERGE(self, position):
        mapping = self.stack.pop()
        if self.stack[-position].keys() & mapping.keys():
            raise TypeError("got multiple values for keyword argument")
        self.stack[-position].update(mapping)

    def FORMAT(self, argument):
        conversion, has_spec = argument
        spec = self.stack.pop() if has_spec else ""
        self.stack.append(format(CONVERT[conversion](self.stack.pop()), spec))

    def UNPACK(self, count):
        values = list(self.stack.pop())
        if len(values) != count:
            raise ValueError("wrong number of values to unpack")
        self.stack += reversed(values)

    def UNPACK_EX(self, argument):
        before, after = argument
        values = list(self.stack.pop())
        if len(values) < before + after:
            raise ValueError("not enough values to unpack")
        stop = len(values) - after
        self.stack += reversed([*values[:before], values[before:stop], *values[stop:]])

    def ITER(self, _):
        self.stack.append(iter(self.stack.pop()))

    def FOR_ITER(self, _):
        item = next(self.stack[-1], UNDEFINED)
        if item is UNDEFINED:
            self.stack.pop()
            return True
        self.stack.append(item)
        return False

    def JUMP(self, _):
        return True

    def JUMP_IF_TRUE(self, _):
        return bool(self.stack.pop())

    def JUMP_IF_FALSE(self, _):
        return not self.stack.pop()

    def RAISE(self, count):
        values = self.take(count)
        if count == 2:
            raise values[0] from values[1]
        raise values[0] if count else RuntimeError("No active exception to reraise")

    def ASSERT_FAIL(self, has_message):
        raise AssertionError(*self.take(has_message))

    def COPY(self, position):
        self.stack.append(self.stack[-position])

    def SWAP(self, position):
        self.stack[-1], self.stack[-position] = self.stack[-position], self.stack[-1]

    def POP(self, _):
        self.stack.pop()

    def GET_LEN(self, _):
        self.stack.append(len(self.stack[-1]))

    def MATCH_SEQUENCE(self, _):
        subject = self.stack[-1]
        is_text = isinstance(subject, (str, bytes, bytearray))
        self.stack.append(isinstance(subject, collections.abc.Sequence) and not is_text)

    def YIELD(self, _):
        raise NotImplementedError("a generator expression")

    def UNSUPPORTED(self, construct):
        raise NotImplementedError(construct)


def effect(instruction):
    """How many values an instruction takes and leaves if it does not jump (nobody but FOR_ITER differs if it does)."""
    argument = instruction.argument
    match instruction.opcode:
        case Opcode.CALL:
            return argument + 1, 1
        case Opcode.CALL_KW:
            return argument[0] + 1, 1
        case Opcode.CALL_EX:
            return 2 + argument, 1
        case Opcode.MAKE_FUNCTION:
            return len(argument) + 1, 1
        case Opcode.BUILD:
            return argument[1] * (2 if argument[0] == "map" else 1), 1
        case Opcode.BUILD_KEYED:
            return len(argument), 1
        case Opcode.BUILD_SLICE:
            return argument, 1
        case Opcode.FORMAT:
            return 1 + argument[1], 1
        case Opcode.UNPACK:
            return 1, argument
        case Opcode.UNPACK_EX:
            return 1, sum(argument) + 1
        case Opcode.RAISE | Opcode.ASSERT_FAIL:
            return int(argument), 0
        case Opcode.COPY:
            return argument, argument + 1
        case Opcode.SWAP:
            return argument, argument
        case Opcode.LIST_APPEND | Opcode.LIST_EXTEND:
            return argument + 1, argument
        case Opcode.MAP_UPDATE | Opcode.MAP_MERGE:
            return argument + 1, argument
        case Opcode.MAP_ADD:
            return argument + 2, argument
        case opcode:
            return FIXED_EFFECTS[opcode.name]


FIXED_EFFECTS = {
    name: counts
    for counts, names in {
        (0, 0): "DELETE DELETE_CELL JUMP UNSUPPORTED",
        (0, 1): "CONST LOAD LOAD_AND_CLEAR LOAD_CELL CLOSURE SAVE_CELL GLOBAL",
        (1, 0): "STORE STORE_CELL RESTORE_CELL JUMP_IF_TRUE JUMP_IF_FALSE RETURN POP",
        (1, 1): "UNARY ATTR LIST_TO_TUPLE ITER YIELD",
        (1, 2): "FOR_ITER GET_LEN MATCH_SEQUENCE IMPORT_FROM",
        (2, 0): "STORE_ATTR",
        (2, 1): "BINARY COMPARE IS CONTAINS SUBSCR IMPORT",
        (3, 0): "STORE_SUBSCR",
    }.items()
    for name in names.split()
}


def check(instructions):
    """That a decoded function is well formed: targets, reachability, and one depth of the stack for every place."""
    depth_of = {0: 0}
    pending = [0]
    while pending:
        position = pending.pop()
        instruction = instructions[position]
        takes, leaves = effect(instruction)
        depth = depth_of[position]
        assert depth >= takes, f"{position} {instruction}: {depth} values on the stack"
        assert instruction.opcode is not Opcode.RETURN or depth == 1, f"{position} {instruction}: depth {depth}"
        has_target = instruction.opcode.name in ("JUMP", "JUMP_IF_TRUE", "JUMP_IF_FALSE", "FOR_ITER")
        assert (instruction.target is not None) is has_target, f"{position} {instruction}"
        depth += leaves - takes
        ways = [] if instruction.opcode in TERMINATORS else [(position + 1, depth)]
        if has_target:
            ways.append((instruction.target, depth - 2 if instruction.opcode is Opcode.FOR_ITER else depth))
        for target, depth_there in ways:
            if target not in depth_of:
                depth_of[target] = depth_there
                pending.append(target)
            assert depth_of[target] == depth_there, f"{target}: depth {depth_of[target]} or {depth_there}"
    assert len(depth_of) == len(instructions), "some instruction is never reached"
