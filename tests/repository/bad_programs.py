"""Programs that cannot be compiled, one mistake each: what is wrong, and how people write it.

`PROGRAMS` maps a name to (argument types, source). The source defines the kernel `k`; `device`, `math` and `np` are there.
Types are separated by semicolons: `float32[1]` is an array of one axis, `const 3` a constant expression. The messages of a
section are one page of golden texts: after a program is added or removed, run
`pytest --update-golden tests/repository/test_errors.py`.
"""

from __future__ import annotations

import re

PROGRAMS: dict[str, tuple[str, str]] = {}
PAGES: dict[str, str] = {}
"""The page of golden texts that each program's message is on: there is one for each section."""
_pages: list[str] = []


def section(title: str) -> None:
    """Begins a section."""
    _pages.append("test_errors/" + re.sub(r"\W+", "_", title.replace("'", "")).lower())


def program(name: str, types: str, source: str) -> None:
    """Adds a program."""
    assert name not in PROGRAMS, name
    PROGRAMS[name] = types, source.lstrip("\n")
    PAGES[name] = _pages[-1]


def statement(name: str, body: str, types: str = "float32[1]; int") -> None:
    """Adds a kernel of x and n with this body."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    program(name, types, f"@device.kernel\ndef k(x, n):\n{lines}")


section("Names and variables")

statement("unknown_name", "x[0] = weight * n")
statement("function_of_math_in_device", "x[0] = device.sqrt(x[0])")
statement("function_of_cuda_in_device", "x[0] = device.__expf(x[0])")
statement("builtin_in_device", "x[0] = device.min(x[0], 1)")
statement("unknown_attribute_of_module", "x[0] = math.sqroot(x[0])")
statement("unknown_device_name", "x[device.thread_index.x] = 0")
statement("name_of_numba", "x[device.grid(1)] = 0")
statement("name_like_none", "device.printf(n)")
statement("atomic_of_cuda", "device.atomicAdd(x, 0, 1)")
statement("vector_of_cuda", "x[0] = device.make_float4(1, 2, 3, 4).x")
statement("host_function_zeros", "scratch = device.zeros(4)\nx[0] = scratch[0]")
statement("exit_of_the_interpreter", "if n > 3:\n    exit()\nx[0] = n")
statement("host_function_launch", "device.launch(print, x, grid=1, block=1)")
program(
    "logging_of_the_host",
    "float32[1]",
    """
import logging


@device.kernel
def k(x):
    logging.info("here")
""",
)
statement("append_in_a_loop", "items = []\nfor i in range(3):\n    items.append(x[i])\nx[0] = items[0]")
statement("assignment_to_an_element_of_a_number", "n[0] = 1")
statement("format_that_python_has_not", "print(f'{x[0]:q}')")
statement("format_of_a_constant_that_python_has_not", "print(f'{3:q}', n)")
statement("item_of_a_text_of_run_time", "print(f'{n}'[0])")
statement("text_of_run_time_before_another", "x[0] = f'{n}' < 'b'")
statement("atomic_add_of_text", "device.atomic_ref(x, 0).add('1')")
statement("member_of_array_of_numbers", "x['weight'] = 1")
statement("unknown_atomic_method", "device.atomic_ref(x, 0).increment(1)")
statement("variable_before_assignment", "x[0] = total\ntotal = 0")
statement("conflict_of_number_and_array", "if n > 0:\n    value = 1\nelse:\n    value = x\nx[0] = value")
statement("conflict_of_tuples", "pair = (0, 0)\nif n > 0:\n    pair = (1, 2, 3)\nx[0] = pair[0]")
statement("conflict_of_none_and_number", "best = None\nfor i in range(n):\n    best = x[i]\nx[0] = best")
statement("conflict_of_signs", "if n > 0:\n    i = device.uint64(n)\nelse:\n    i = device.int64(n)\nx[i] = 0")
statement("conflict_of_functions", "f = math.sin if n > 0 else math.cos\nx[0] = f(x[0])")
statement(
    "conflict_of_constant_and_small_type", "value = 300\nif n > 0:\n    value = x[0]\nx[1] = value", "uint8[1]; int"
)
statement("conflict_in_ternary", "x[0] = (1 if n > 0 else None) + 2")
program(
    "closure_without_value",
    "float32[1]",
    """
def make():
    @device.kernel
    def k(x):
        x[0] = factor

    return k
    factor = 2


k = make()
""",
)

section("Statements and expressions that device code has not")

statement("try_except", "try:\n    x[0] = 1 / n\nexcept ZeroDivisionError:\n    x[0] = 0")
statement("try_finally", "try:\n    x[0] = 1\nfinally:\n    x[1] = 1")
statement("with_statement", "with x:\n    x[0] = 1")
statement("import_statement", "import math\nx[0] = math.pi")
statement("dict_without_the_key", 'weights = {"a": 1, "b": 2}\nx[0] = weights["c"]')
statement("dict_with_key_of_run_time", "weights = {1: 0.5, 2: (1, 2)}\nx[0] = weights[n]")
statement("dict_item_assignment", "weights = {}\nweights[n] = 2\nx[0] = weights['b']")
statement("dict_method", 'weights = {"a": 1}\nx[0] = weights.pop("b")')
statement("dict_of_variables", "table = {n: 1}\nx[0] = table[n]")
statement("set_display", "allowed = {1, n}\nx[0] = n in allowed")
statement("dict_comprehension", "table = {i: i for i in range(n)}\nx[0] = 1")
statement("delete_item", "del x[0]")
statement("delete_attribute", "del x.shape")
statement("global_assignment", "global counter\ncounter = 1")
statement("class_statement", "class Point:\n    pass\nx[0] = 1")
statement("attribute_of_array", "x.offset = 1")
statement("matrix_product", "x[0] = x @ x")
statement("match_mapping", 'match {"a": n}:\n    case {"a": a, **rest}:\n        x[0] = rest["b"]')
statement("walrus_of_list_method", "(items := (1, 2)).append(n)\nx[0] = items[0]")
statement("bytes_constant", 'x[0] = b"abc"')
program("generator", "float32[1]", "@device.kernel\ndef k(x):\n    yield x[0]\n")
program(
    "generator_that_returns_a_value",
    "float32[1]",
    "def up(n):\n    yield n\n    return 3\n\n@device.kernel\ndef k(x):\n    x[0] = sum(up(2))\n",
)
program(
    "generator_through_itself",
    "float32[1]; int",
    """
def down(n):
    if n > 0:
        yield n
        yield from down(n - 1)

@device.kernel
def k(x, n):
    for v in down(n):
        x[v] = v
""",
)
program("coroutine", "float32[1]", "@device.kernel\nasync def k(x):\n    x[0] = 1\n")
program(
    "nonlocal_assignment",
    "float32[1]",
    """
def make():
    count = 0

    @device.kernel
    def k(x):
        nonlocal count
        count += 1
        x[0] = count

    return k


k = make()
""",
)

section("Builtins and other people's functions")

statement("sorted_array", "x[0] = sorted(x)[0]")
statement("call_of_open", 'open("file").read()')
statement("call_of_input", "x[0] = float(input())")
statement("call_of_str", "x[0] = len(str(n))")
statement("call_of_dict", "table = dict((1, 2))")
statement("call_of_numpy", "x[0] = np.interp(x[0], (0, 1), (5, 6))")
statement("call_of_numpy_zeros", "scratch = np.zeros(3)\nx[0] = scratch[0]")
statement("call_of_array_method", "x[0] = x.argsort()")
statement("call_of_random", "x[0] = np.random.rand()")
statement("call_of_an_array", "x[0] = x(3)")
program(
    "call_of_a_kernel",
    "float32[1]",
    """
@device.kernel
def other(x):
    x[0] = 1


@device.kernel
def k(x):
    other(x)
""",
)
program(
    "call_of_a_class",
    "float32[1]",
    """
class Point:
    def __init__(self, x):
        self.x = x


@device.kernel
def k(x):
    x[0] = Point(3).x
""",
)
statement("call_of_bytes", "x[0] = bytes(n)[0]")
program(
    "call_of_an_instance",
    "float32[1]",
    """
class Scale:
    factor = 2


scale = Scale()


@device.kernel
def k(x):
    x[0] = scale(x[0])
""",
)

section("Host objects")

for name, value, use in [
    ("index_out_of_a_global_array", "np.ones((3, 3))", "table[0, 5]"),
    ("indices_of_a_global_array", "np.ones(3)", "table[0, 0]"),
    ("arithmetic_with_a_global_array", "np.ones(3)", "table * 2"),
    ("assignment_to_a_global_array", "np.ones(3)", "table[n] = 1"),
    ("global_array_of_strings", 'np.array(["a", "b"])', "table[n]"),
    ("global_array_too_large", "np.zeros(1 << 22)", "table[n]"),
    ("method_that_changes_a_global_array", "np.ones(3)", "table.sort()"),
    ("global_dict_without_the_key", "dict(a=1)", "table['b']"),
    ("global_list_index_out_of_range", "[1, 2]", "table[2]"),
    ("global_list_of_different_things", "[1, (2, 3)]", "table[n]"),
    ("global_list_too_long", "list(range(2000))", "sum(table)"),
    ("global_list_append", "[1]", "table.append(n)"),
    ("global_list_changed", "[1]", "table[0] = n"),
    ("global_set_of_strings", '{"a", "b"}', "table[0]"),
    ("global_list_of_large_integers", "[2**31 + i for i in range(100)]", "table[n]"),
    ("global_array_of_long_doubles", "np.ones(3, np.longdouble)", "table[0]"),
    ("global_record_of_text", "np.array([(1, 'ab')], [('a', 'i4'), ('b', 'U2')])", "table[0]['a']"),
    ("attribute_of_a_global_subarray", "np.zeros(3, [('m', 'f4', (3,))])", "table[0]['m'].sum()"),
    ("index_out_of_a_global_subarray", "np.zeros(3, [('m', 'f4', (3,))])", "table[0]['m'][3]"),
    ("global_generator", "(i for i in range(3))", "sum(table)"),
]:
    store = use if "] = " in use else f"x[0] = {use}"
    program(name, "float32[1]; int", f"table = {value}\n\n\n@device.kernel\ndef k(x, n):\n    {store}\n")
program(
    "global_object_in_arithmetic",
    "float32[1]",
    """
class Settings:
    scale = object()


@device.kernel
def k(x):
    x[0] = x[0] * Settings.scale
""",
)
program(
    "global_string_in_arithmetic", "float32[1]", 'unit = "mm"\n\n\n@device.kernel\ndef k(x):\n    x[0] = x[0] * unit\n'
)
program(
    "missing_attribute_of_object",
    "float32[1]",
    """
class Settings:
    scale = 2


@device.kernel
def k(x):
    x[0] = Settings.scales
""",
)
program(
    "property_that_raises",
    "float32[1]",
    """
class Settings:
    @property
    def scale(self):
        raise RuntimeError("not loaded yet")


settings = Settings()


@device.kernel
def k(x):
    x[0] = settings.scale
""",
)
program(
    "comparison_of_host_arrays",
    "float32[1]",
    """
a, b = np.ones(3), np.zeros(3)


@device.kernel
def k(x):
    if a == b:
        x[0] = 1
""",
)

program("dataclass_is_made", "float32[1]", """
import dataclasses

@dataclasses.dataclass
class Point:
    x: float

@device.kernel
def k(x):
    x[0] = Point(1.0).x
""")  # fmt: skip
program("text_with_index_of_run_time", "float32[1]; int", """
NAME = "hello"

@device.kernel
def k(x, n):
    if NAME[n] == "h":
        x[0] = 1
""")  # fmt: skip

section("Operators and types")

statement("sum_of_arrays", "y = x + x")
statement("minus_array", "x[0] = -x")
statement("not_an_integer_inverted", "x[0] = ~x[0]")
statement("bitwise_and_of_floats", "x[0] = x[0] & 1")
statement("shift_of_float", "x[0] = x[0] << 2")
statement("comparison_of_array", "if x < 1:\n    x[0] = 1")
statement("comparison_with_none", "if x[0] < None:\n    x[0] = 1")
statement("comparison_with_string", 'if n == "a":\n    x[0] = 1')
statement("truth_of_array", "if x:\n    x[0] = 1")
statement("identity_of_numbers", "x[0] = n is x[0]")
statement("none_plus_number", "x[0] = None + n")
statement("uint64_and_int64", "x[0] = x[1] + device.int64(n)", "uint64[1]; int")
statement("min_without_common_type", "x[0] = min(x[1], device.int64(n))", "uint64[1]; int")
statement("abs_of_array", "x[0] = abs(x)")
statement("int_of_string", 'x[0] = int("three")')
statement("sqrt_of_tuple", "x[0] = math.sqrt((4.0,))")
statement("attribute_of_number", "x[0] = n.hex")
statement("attribute_of_zip", "pairs = zip((1, 2), (n, 4))\nx[0] = pairs.count(1)")
statement("attribute_of_slice", "part = slice(1, n)\nx[0] = part.stride")
statement("item_of_dict_values", "table = {'a': n, 'b': 2}\nx[0] = table.values()[0]")
statement("sum_of_iterators", "x[0] = iter([n, 2]) + iter([3])")
statement("type_of_an_iterator", "x[0] = type(iter((n, 2))) is tuple")
statement("function_without_its_call", "def twice():\n    return n * 2\n\nx[0] = twice + 1")
statement("view_of_no_axis", "y = x.view(device.int8)", "ArrayType(float32, 0); int")
statement("view_of_columns", "y = x.view(device.int8)", "ArrayType(float32, 2, 'F'); int")
statement("array_of_more_axes", "x[0:2] = n", "float32[1]; float32[2]")
statement("number_as_a_vector", "x[0] = x[0].astype(device.float32x2)")
statement("component_w_of_dim3", "x[0] = device.thread_idx.w")
statement("dim3_into_array", "x[device.thread_idx] = 1")

section("Constants")

statement("constant_too_large_for_uint8", "x[0] = x[0] + 300", "uint8[1]; int")
statement("negative_constant_and_unsigned", "x[0] = x[0] * -1", "uint32[1]; int")
statement("constant_too_large_for_int", "big = 5_000_000_000\nx[0] = n + big")
statement("constant_too_large_for_everything", "x[0] = n + 2**70")
statement("constructor_of_large_constant", "x[0] = device.int8(1000)")
statement("very_long_constant", "x[0] = n + 10**400")
statement("float_constant_as_integer", "x[0] = n << int(2.5) + device.int32(1e10)")

section("Indices and items")

statement("too_many_indices", "x[0, 1] = 1")
statement("float_index", "x[1.5] = 1")
statement("tuple_index_out_of_range", "pair = (1, 2)\nx[0] = pair[2]")
statement("tuple_repeated_by_variable", "x[0] = ((1, 2) * n)[0]")
statement("tuple_repeated_too_often", "x[0] = ((1, 2) * 100_000)[0]")
statement("tuple_of_arrays_compared", "x[0] = (x, 1) < (x, 2)")
for name, use in [
    ("setitem_of_a_tuple", "operator.setitem((n, 2), 0, 1)"),
]:
    program(
        name,
        "float32[1]; int",
        f"import itertools\nimport operator\n\n\n@device.kernel\ndef k(x, n):\n    x[0] = {use}\n",
    )
statement("item_of_uint8", "x[0] = x[1][0]", "uint8[1]; int")
statement("item_of_an_atomic", "x[0] = device.atomic_ref(x, 0)[1]")
statement("item_of_a_method", "x[0] = x.reshape[1]")
statement("attribute_of_none", "x[0] = None.shape")
statement("index_of_a_vector_in_memory", "x[0][x[1].x] = n", "ArrayType(float32x4, 1); int")
statement("assignment_to_tuple_item", "pair = (1, 2)\npair[0] = n\nx[0] = pair[0]")
statement("read_only_array", "x[0] = 1", "readonly float32[1]; int")

section("Loops and unpacking")

statement("loop_over_number", "for i in n:\n    x[i] = 0")
statement("range_of_float", "for i in range(x[0]):\n    x[i] = 0")
statement("range_with_step_zero", "for i in range(0, n, 0):\n    x[i] = 0")
statement("range_without_common_type", "for i in range(device.int64(n), x[0]):\n    pass", "uint64[1]; int")
statement("range_without_arguments", "for i in range():\n    pass")
statement("unpacking_too_many", "a, b = 1, 2, n\nx[0] = a")
statement("unpacking_a_number", "a, b = n\nx[0] = a")
statement("unpacking_too_few_with_a_star", "a, b, *rest = (n,)\nx[0] = a")
statement(
    "unrolled_too_often",
    "total = 0\n"
    + "".join(f"{'    ' * i}for {name} in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):\n" for i, name in enumerate("abcdef"))
    + "                        total += a * b * c * d * e * f\nx[0] = total",
)

section("Arities")

statement("builtin_with_keyword", "x[0] = math.sqrt(x=2)")
statement("len_of_number", "x[0] = len(n)")
statement("tid_without_arguments", "x[device.tid()] = 1")
statement("syncthreads_with_argument", "device.syncthreads(0)")
statement("method_without_arguments", "x[0] = device.philox(1).uniform()")
FUNCTION = "def scale(value, factor):\n    return value * factor\n\n\n@device.kernel\ndef k(x):\n    x[0] = "
for name, call in [
    ("argument_missing", "scale(x[0])"),
    ("arguments_missing", "scale()"),
    ("argument_too_many", "scale(x[0], 1, 2)"),
    ("argument_of_unknown_name", "scale(x[0], by=2)"),
    ("argument_given_twice", "scale(x[0], 2, value=1)"),
]:
    program(name, "float32[1]", f"{FUNCTION}{call}\n")

section("Constant expressions")

statement("tid_of_four", "x[device.tid(4)] = 1")
statement("tid_of_variable", "x[device.tid(n)] = 1")
program(
    "const_expression_from_variable",
    "float32[1]; int",
    """
@device.func
def scale(value, factor: device.ConstExpr):
    return value * factor


@device.kernel
def k(x, n):
    x[0] = scale(x[0], n)
""",
)

section("Shared memory")

statement("shared_array_of_variable_size", "tile = device.shared_array(n, device.float32)\ntile[0] = 1")
statement("shared_array_of_negative_size", "tile = device.shared_array((4, -1), device.float32)\ntile[0, 0] = 1")
statement("shared_array_without_dtype", "tile = device.shared_array(4)\ntile[0] = 1")
statement("shared_array_of_odd_alignment", "tile = device.shared_array(4, device.float32, align=3)\ntile[0] = 1")
statement("shared_array_of_unknown_order", 'tile = device.shared_array(4, device.float32, order="K")\ntile[0] = 1')
statement(
    "shared_array_too_large",
    "tile = device.shared_array((300, 300), device.float32)\ntile[0, 0] = 1\nx[0] = tile[0, n]",
)
statement(
    "shared_arrays_too_large_together",
    """
first = device.shared_array(30000, device.float32)
second = device.shared_array(30000, device.float32)
first[n] = second[n] = 1
x[0] = first[0] + second[0]
""",
)

section("Vectors and structs")

statement("vector_of_too_few", "v = device.float32x4(1, 2, 3)\nx[0] = v.x")
statement("vector_without_z", "v = device.float32x2(1, 2)\nx[0] = v.z")
statement("vectors_of_different_sizes", "v = device.float32x2(1, 2) + device.float32x3(1, 2, 3)\nx[0] = v.x")
statement("vector_slice", "v = device.float32x4(1, 2, 3, 4)[:2]\nx[0] = v.x")
statement("vector_slice_assigned", "v = device.float32x4(1, 2, 3, 4)\nv[:2] = 1\nx[0] = v.x")
statement("vector_swizzle_assigned", "v = device.float32x4(1, 2, 3, 4)\nv.xy = device.float32x2(1, 2)\nx[0] = v.x")
statement("vector_swizzle", "v = device.float32x4(1, 2, 3, 4).zyx\nx[0] = v.x")
statement("vector_of_another_language", "v = device.float32x4(1, 2, 3, 4)\nx[0] = v.r")
POINT = """
@device.struct
class Point:
    x: device.float32
    y: device.int32


@device.kernel
def k(x):
"""
for name, body in [
    ("struct_lacks_a_member", "p = Point(1)"),
    ("struct_with_unknown_keyword", "p = Point(1, z=2)"),
    ("struct_has_no_such_member", "x[0] = Point(1, 2).z"),
    ("struct_member_of_another_kind", "p = Point(1, 2.5)\n    x[0] = p.y"),
    ("struct_in_arithmetic", "x[0] = Point(1, 2) + 1"),
]:
    program(name, "float32[1]", f"{POINT}    {body}\n")

section("Lists, slices, views")

statement("list_item_assignment", "items = [1, 2]\nitems[2] = n\nx[0] = items[0]")
statement("slice_with_float", "y = x[0.5:2]\nx[0] = y[0]")
statement("slice_of_tuple_by_variable", "y = (1, 2, 3)[n:]\nx[0] = y[0]")
statement("index_by_a_list", "x[0] = x[[0, 1]]")
statement("slice_with_step_zero", "y = x[::0]\nx[0] = y[0]")
statement("f_string_of_variable", 'x[0] = len(f"{n}")')
statement("contains_in_string", 'x[0] = n in "abc"')
statement("star_of_array", "x[0] = max(*x)")
statement("star_unpacking_of_array", "a, *b = x\nx[0] = a")
statement("iterator_on_two_ways", "a, b = iter((n, 1)), iter((2, n))\nc = a if n else b\nx[0] = next(c) + next(a)")
statement("raise_of_number", "raise 3")
statement("reshape_with_two_unknowns", "y = x.reshape(3, n, -1, -1)\nx[0] = y[0, 0, 0, 0]")
statement("reshape_of_float", "y = x.reshape(2.5)\nx[0] = y[0]")
statement("astype_that_copies", "y = x.astype(device.int32)\nx[0] = y[0]")

section("Warps and atomics")

statement("shuffle_without_mask", "x[0] = device.shfl_sync(x[0])")
statement("shuffle_of_array", "x[0] = device.shfl_sync(0xFFFFFFFF, x, 0)")
statement("shuffle_from_float_lane", "x[0] = device.shfl_sync(0xFFFFFFFF, x[0], 1.5)")
statement("mask_of_float", "x[0] = device.shfl_sync(1.5, x[0], 0)")
statement("mask_of_too_many_bits", "x[0] = device.shfl_sync(1 << 40, x[0], 0)")
statement("atomic_with_unknown_order", 'device.atomic_ref(x, 0).add(1, memory="fast")')
statement("atomic_with_unknown_scope", 'device.atomic_ref(x, 0).add(1, scope="universe")')
statement("atomic_load_that_releases", 'y = device.atomic_ref(x, 0).load(memory="release")')
statement("atomic_in_read_only_array", "device.atomic_ref(x, 0).add(1)", "readonly float32[1]; int")
statement("atomic_and_of_floats", "device.atomic_ref(x, 0).and_(1)")
statement("popc_of_float", "x[0] = device.popc(x[0])")
statement("target_of_number", "x[0] = 1 if device.target(3) else 0")

section("Results")

statement("kernel_returns_number", "x[0] = 1\nreturn n")
program(
    "function_returns_on_some_ways",
    "float32[1]",
    """
def root(value):
    if value > 0:
        return math.sqrt(value)


@device.kernel
def k(x):
    x[0] = root(x[0])
""",
)
program(
    "function_returns_two_types",
    "float32[1]",
    """
def split(value):
    if value > 0:
        return value, 0
    return value


@device.kernel
def k(x):
    x[0] = split(x[0])
""",
)

section("Recursion")

program(
    "recursion_without_end",
    "float32[1]",
    """
def f(n):
    return f(n - 1)


@device.kernel
def k(x):
    x[0] = f(3)
""",
)
program(
    "recursion_of_two_without_end",
    "float32[1]",
    """
def f(n):
    return g(n) + 1


def g(n):
    return f(n) * 2


@device.kernel
def k(x):
    x[0] = f(x[0])
""",
)
program(
    "recursion_that_grows",
    "float32[1]",
    """
def f(items):
    return f((items, 1))


@device.kernel
def k(x):
    x[0] = f(x[0])
""",
)

section("Errors inside callees")

program(
    "error_in_a_chain_of_calls",
    "float32[1]; uint8[2]",
    """
def innermost(value, table):
    return value + table


def middle(value, *, table):
    return innermost(value, table) * 2


@device.func
def outermost(x, table, scale=2.5):
    return middle(x[0], table=table) * scale


@device.kernel
def k(x, table):
    i = device.tid(1)
    x[i] = outermost(x, table)
""",
)
program(
    "error_for_one_of_two_callers",
    "float32[1]; int",
    """
def first(items):
    return items[0]


@device.kernel
def k(x, n):
    x[0] = first((n, 2))
    x[1] = first(n)
""",
)
program(
    "error_in_a_method",
    "float32[1]",
    """
class Filter:
    @staticmethod
    def apply(value):
        return value.mean()


@device.kernel
def k(x):
    x[0] = Filter.apply(x[0])
""",
)
program(
    "error_in_a_default",
    "float32[1]",
    """
def f(value, table=np.ones(3)):
    return value + table


@device.kernel
def k(x):
    x[0] = f(x[0])
""",
)

section("The look of the source")

program(
    "expression_of_several_lines",
    "float32[1]",
    """
@device.kernel
def k(x):
    x[0] = (
        x[1]
        + (x[2] + weight)
        + x[3]
    )
""",
)
program(
    "culprit_of_several_lines",
    "float32[1]",
    """
@device.kernel
def k(x):
    x[0] = math.sqrt(
        x[1],
        x[2],
    )
""",
)
program(
    "letters_of_other_alphabets",
    "float32[1]",
    """
@device.kernel
def k(größe):
    größe[0] = größe[1] + "größe"; größe[2] = 1
""",
)
program("tabs", "float32[1]", "@device.kernel\ndef k(x):\n\tif x[0] > 1:\n\t\tx[0] =\tx[1] + weight\n")
program("two_statements_on_a_line", "float32[1]", "@device.kernel\ndef k(x): x[0] = 1; x[1] = weight; x[2] = 2\n")
program(
    "long_line",
    "float32[1]",
    f"@device.kernel\ndef k(x):\n    x[0] = {' + '.join(f'x[{i}]' for i in range(20))} + weight\n",
)
program("lambda_kernel", "float32[1]", "k = device.kernel(lambda x: x[0] + weight)\n")

section("Builtins that take functions, and keywords")

statement("min_of_nothing", "x[0] = min(())")
statement("min_with_unknown_keyword", "x[0] = min((1, n), cmp=3)")
statement("max_of_two_with_default", "x[0] = max(1, n, default=3)")
statement("max_with_key_that_is_no_function", "x[0] = max((1, n), key=3)")
statement("reduce", "x[0] = functools.reduce(max, (1, n))")
statement("map_without_items", "for v in map(abs):\n    x[0] = v")
statement("filter_of_array", "x[0] = len(tuple(filter(None, x)))")
statement("zip_of_unequal_tuples", "for a, b in zip((1, 2), (n,), strict=True):\n    x[0] = a * b")
statement("zip_with_unknown_keyword", "for a, b in zip(x, x, fill=0):\n    x[0] = a * b")
statement("enumerate_from_float", "for i, v in enumerate(x, 1.5):\n    x[0] = v")
statement("reversed_number", "for v in reversed(n):\n    x[0] = v")
statement("sum_of_tuples", "x[0] = sum(((1, 2), (3, n)))")
statement("isinstance_of_a_value", "x[0] = isinstance(n, 3)")
statement("divmod_of_one_number", "x[0] = divmod(n)[0]")
statement("pow_of_one_number", "x[0] = pow(n)")
statement("greatest_common_divisor_of_floats", "x[0] = math.gcd(x[0], n)")
statement("minus_none", "x[0] = -None")
statement("minus_list", "x[0] = -[n, 1]")
statement("groups_of_itertools", "for k, g in itertools.groupby((1, 1, n)):\n    x[0] += k")
program(
    "singledispatch",
    "float32[1]; int",
    """
import functools


@functools.singledispatch
def size(value):
    return 0


@device.kernel
def k(x, n):
    x[0] = size(n)
""",
)
statement("pow_of_string", 'x[0] = pow("a", n)')
statement("round_to_digits_of_variable", "x[0] = round(n, n)")
statement("getattr_of_variable", "x[0] = getattr(x, n)")
statement("int_with_base", "x[0] = int(n, 16)")
statement("next_of_tuple", "x[0] = next((1, n))")
statement("eval_call", 'x[0] = eval("n + 1")')
statement("super_call", "x[0] = super().value")
statement("id_of_array", "x[0] = id(x)")
statement("time_call", "x[0] = time.time()")
statement("numpy_array_display", "y = np.array([1, 2])\nx[0] = y[n]")
statement("method_of_float", "x[0] = x[0].hex()")
statement("misspelt_method_of_int", "x[0] = n.bitcount()")
statement("attribute_of_range", "x[0] = range(n).begin")
statement("range_index_of_float", "x[0] = range(n)[1.5]")

section("Enumerations and named tuples")

ENUM = """
import enum


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Shade(enum.Enum):
    DARK = 1
    BRIGHT = (2, 3)


class Shape(enum.Flag):
    ROUND = 1
    FLAT = 2


class Pair(__import__("typing").NamedTuple):
    a: int
    b: float = 2.5


@device.kernel
def k(x, n):
"""
for name, body in [
    ("enum_of_unknown_name", "x[0] = Colour.GREEN.value"),
    ("enum_of_unknown_value", "x[0] = Colour(7).value"),
    ("enum_of_flags_of_either", "s = Shape.ROUND if n > 0 else Shape.FLAT\n    x[0] = s.value"),
    ("enum_in_arithmetic", "x[0] = Colour.RED + 1"),
    ("enum_into_array", "x[0] = Colour.RED"),
    ("enum_compared_by_size", "x[0] = Colour.RED < Colour.BLUE"),
    ("enum_of_either", "c = Colour.RED if n > 0 else Colour.BLUE\n    x[0] = c < Colour.BLUE"),
    ("enum_attribute", "x[0] = Colour.RED.values"),
    ("named_tuple_of_too_many", "x[0] = Pair(1, 2, 3).a"),
    ("named_tuple_of_too_few", "x[0] = Pair(b=n).b"),
    ("named_tuple_of_unknown_member", "x[0] = Pair(1, c=n).a"),
    ("named_tuple_attribute", "x[0] = Pair(1, n).c"),
]:
    program(name, "float32[1]; int", f"{ENUM}    {body}\n")

section("Functions with **kwargs")

KEYWORDS = (
    "def scale(value, *more, by=1, **rest):\n    return value * by + {use}\n\n\n@device.kernel\ndef k(x, n):\n    "
)
for name, use, body in [
    ("keyword_that_was_not_given", 'rest["power"]', "x[0] = scale(n, offset=2)"),
    ("keyword_given_twice", "0", 'more = {"by": 2}\n    x[0] = scale(n, by=1, **more)'),
    ("stars_of_number", "0", "x[0] = scale(1, **n)"),
    ("stars_of_numbered_dict", "0", "x[0] = scale(1, **{1: 2})"),
    ("keyword_of_run_time", "rest[value]", "x[0] = scale(n)"),
]:
    program(name, "float32[1]; int", KEYWORDS.format(use=use) + body + "\n")

section("Structs with methods")

METHODS = """
@device.struct
class Point:
    x: device.float32
    y: device.int32

    @property
    def norm(self):
        return self.x * self.z

    def move(self, by):
        self.x = by

    def __add__(self, other):
        return self.x + other.missing

    def __bool__(self):
        return (1, 2)


@device.kernel
def k(x, n):
"""
for name, body in [
    ("error_in_a_property", "x[0] = Point(1, n).norm"),
    ("method_that_changes_a_value", "p = Point(1, n)\n    p.move(2.0)\n    x[0] = p.x"),
    ("error_in_an_operator", "x[0] = Point(1, n) + Point(2, n)"),
    ("operator_that_a_struct_has_not", "x[0] = Point(1, n) * 2"),
    ("comparison_that_a_struct_has_not", "x[0] = Point(1, n) < Point(2, n)"),
    ("index_of_a_struct", "x[0] = Point(1, n)[0]"),
    ("method_without_call", "x[0] = Point(1, n).move"),
]:
    program(name, "float32[1]; int", f"{METHODS}    {body}\n")
