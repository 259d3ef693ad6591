"""Programs on a CPU stream that print the same on every platform; `portability.txt` has what they print.

    python tests/portability.py | diff tests/portability.txt -

They use what depends on the host's processor, operating system and libraries: threads and barriers, atomic operations and their
orders, small and large types, the mathematical library, checks, the race detector, and NVIDIA's linker. Floats are printed with
the digits on which mathematical libraries agree.
"""

import math

import ml_dtypes
import numpy as np

import cuda_device as device

STREAM = device.cpu_stream()


def launch(kernel, *arguments, grid=1, block=1, stream=STREAM):
    device.launch(kernel, *arguments, grid=grid, block=block, stream=stream)


def barriers():
    @device.kernel
    def reverse(x, y):
        tile = device.shared_array(64, device.float32)
        i = device.tid(1)
        tile[i] = x[i]
        device.syncthreads()
        y[i] = tile[63 - i]

    y = np.zeros(64, np.float32)
    launch(reverse, np.arange(64, dtype=np.float32), y, block=64)
    return y.tolist()


def atomic_operations():
    @device.kernel
    def histogram(x, counts, largest, total):
        i = device.tid(1)
        if i < len(x):
            device.atomic_ref(counts, x[i]).add(1)
            device.atomic_ref(largest, 0).max(x[i])
            device.atomic_ref(total, 0).add(0.5)

    x = np.arange(20_000, dtype=np.int32) ** 2 % 16
    counts, largest, total = np.zeros(16, np.int64), np.zeros(1, np.int32), np.zeros(1)
    launch(histogram, x, counts, largest, total, grid=200, block=100)
    return counts.tolist(), largest.tolist(), total.tolist()


def compare_and_swap():
    @device.kernel
    def add_two(cell):
        cell = device.atomic_ref(cell, 0)
        expected = cell.load()
        while True:
            found = cell.cas(expected, expected + 2)
            if found == expected:
                break
            expected = found

    cells = [np.zeros(1, dtype) for dtype in (np.int32, np.int64, np.uint64)]
    for cell in cells:
        launch(add_two, cell, grid=50, block=100)
    return [cell.tolist() for cell in cells]


def release_and_acquire():
    @device.kernel
    def pass_on(x, flag):
        flag = device.atomic_ref(flag, 0)
        if device.tid(1) == 0:
            x[0] = 42
            flag.store(1, "release")
        else:
            while flag.load("acquire") == 0:
                pass
            x[1] = x[0]

    received = set()
    for _ in range(20):
        x = np.zeros(2, np.int32)
        launch(pass_on, x, np.zeros(1, np.int32), grid=2)
        received.add(int(x[1]))
    return received


def warps():
    @device.kernel
    def sums(x, y):
        i = device.tid(1)
        total = x[i]
        for distance in (16, 8, 4, 2, 1):
            total += device.shfl_xor_sync(0xFFFFFFFF, total, distance)
        y[i] = total

    y = np.zeros(64, np.int32)
    launch(sums, np.arange(64, dtype=np.int32), y, block=64)
    return y.tolist()


def mathematics():
    @device.kernel
    def compute(x, y):
        i = device.tid(1)
        y[i] = math.sin(x[i]) * math.exp(-x[i]) + math.erf(x[i]) + math.gamma(x[i] + 1) + x[i] ** 1.5 + math.log1p(x[i])

    found = []
    for dtype, digits in ((np.float32, 5), (np.float64, 12)):
        x = np.linspace(0.1, 3, 8).astype(dtype)
        y = np.zeros_like(x)
        launch(compute, x, y, block=8)
        found.append([f"{each:.{digits}g}" for each in y.tolist()])
    return found


def number_types():
    @device.kernel
    def compute(x, y):
        i = device.tid(1)
        y[i] = x[i] * x[i] + x[i]

    found = {}
    for dtype in (np.int8, np.uint16, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.complex64):
        x = np.arange(32).astype(dtype)
        y = np.zeros_like(x)
        launch(compute, x, y, block=32)
        found[np.dtype(dtype).name] = y.view(np.uint8).tobytes().hex()
    return found


def structs():
    @device.struct
    class Parts:
        a: device.float32
        b: device.int64
        c: device.int8

    @device.kernel
    def add(parts, y):
        y[device.tid(1)] = parts.a + parts.b + parts.c

    y = np.zeros(4)
    launch(add, Parts(1.5, 1 << 20, -3), y, block=4)
    return y.tolist()


def checks():
    @device.kernel
    def beyond(x):
        x[device.tid(1) + 10] = 1

    @device.kernel
    def both_write(x):
        x[0] = device.tid(1)

    found = []
    for kernel, grid, stream in ((beyond, 1, STREAM), (both_write, 2, device.cpu_stream(races=True))):
        try:
            launch(kernel, np.zeros(10, np.int64), grid=grid, stream=stream)
        except device.KernelError as error:
            found.append(str(error).partition("\n")[0])
    return found


def printing():
    @device.kernel
    def show(x):
        print("value", x[0], device.tid(1), x[0] < 3)

    launch(show, np.array([2.5]))
    return "(above)"


def clocks():
    @device.kernel
    def read(x):
        x[0] = device.clock64()
        x[1] = device.clock64()

    x = np.zeros(2, np.int64)
    launch(read, x)
    return bool(0 < x[0] <= x[1])


def machine_code():
    @device.kernel
    def add(x):
        x[device.tid(1)] += 1

    compiled = device.compile(add, device.ArrayType(device.float32, 1), target="sm_121", output="cubin")
    return compiled.symbol, compiled.code[:4]


PROGRAMS = (
    barriers, atomic_operations, compare_and_swap, release_and_acquire, warps, mathematics, number_types, structs, checks,
    printing, clocks, machine_code,
)  # fmt: skip


def main():
    for program in PROGRAMS:
        print(f"{program.__name__}: {program()}", flush=True)


if __name__ == "__main__":
    main()
