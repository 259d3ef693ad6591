"""Finding a word in a text: where it first occurs, and how often, with a few atomics for each block."""

import numpy as np

import cuda_device as device

BLOCK = 256
NOWHERE = 2**31 - 1
TOLERANCE = {"rtol": 0, "atol": 0}


@device.func
def occurs(text, word, start):
    """Whether `word` is in `text` at `start`."""
    return all(text[start + k] == word[k] for k in range(len(word)))


@device.kernel
def find(text, word, first, count):
    """The least place of `word` in `first[0]`, the number of its places in `count[0]`."""
    i = device.tid(1)
    found = i <= len(text) - len(word) and occurs(text, word, i)
    here = device.syncthreads_count(lambda: found)
    if found:
        device.atomic_ref(first, 0).min(i, memory="relaxed", scope="device")
    if device.thread_idx.x == 0 and here > 0:
        device.atomic_ref(count, 0).add(here, memory="relaxed", scope="device")


def run(stream, text, word):
    """The first place (`NOWHERE` if there is none), and the number of places."""
    there = [device.array(np.frombuffer(part, np.uint8), stream=stream) for part in (text, word)]
    first = device.array(np.array([NOWHERE], np.int32), stream=stream)
    count = device.zeros(1, np.int32, stream=stream)
    device.launch(find, *there, first, count, grid=-(-len(text) // BLOCK), block=BLOCK, stream=stream)
    return first.numpy(), count.numpy()


def expect(text, word):
    """By Python's own search."""
    places = [i for i in range(len(text)) if text.startswith(word, i)]
    return np.array([min(places, default=NOWHERE)]), np.array([len(places)])


def cases(random):
    """A word that is nowhere, one that overlaps itself, one longer than the text."""
    yield b"a", b"a"
    yield b"ab", b"abc"
    yield b"needle" + b"hay" * 200 + b"needle", b"needle"
    yield b"aaaaaaa", b"aa"
    yield bytes(random.integers(97, 100, 5000).astype(np.uint8)), b"abca"
    yield b"hay" * 1000, b"needle"
