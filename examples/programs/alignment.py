"""Alignment of two sequences: global (Needleman and Wunsch) and local (Smith and Waterman), scores only.

One block works along the antidiagonals of the table: the elements of one depend only on the two before it.
"""

import numpy as np

import cuda_device as device

MATCH, MISMATCH, GAP = 2, -1, -2
BLOCK = 128
LONGEST = 512
TOLERANCE = {"rtol": 0, "atol": 0}


@device.kernel
def align(a, b, scores, local):
    """Fills the table of `scores`, of shape (len(a) + 1, len(b) + 1); with `local`, no score is below zero."""
    thread, threads = int(device.thread_idx.x), int(device.block_dim.x)
    rows, columns = len(a) + 1, len(b) + 1
    for i in range(thread, rows, threads):
        scores[i, 0] = 0 if local else i * GAP
    for j in range(thread, columns, threads):
        scores[0, j] = 0 if local else j * GAP
    device.syncthreads()
    for diagonal in range(2, rows + columns - 1):
        first, last = max(1, diagonal - columns + 1), min(diagonal, rows)
        for i in range(first + thread, last, threads):
            j = diagonal - i
            score = scores[i - 1, j - 1] + (MATCH if a[i - 1] == b[j - 1] else MISMATCH)
            score = max(score, scores[i - 1, j] + GAP, scores[i, j - 1] + GAP)
            scores[i, j] = max(score, 0) if local else score
        device.syncthreads()


@device.kernel
def align_shared(a, b, result):
    """The global score alone: three antidiagonals in shared memory, for sequences of up to `LONGEST` letters."""
    diagonals = device.shared_array((3, LONGEST + 1), device.int32)
    thread, threads = int(device.thread_idx.x), int(device.block_dim.x)
    rows, columns = len(a) + 1, len(b) + 1
    for diagonal in range(rows + columns - 1):
        now, before, earlier = diagonal % 3, (diagonal + 2) % 3, (diagonal + 1) % 3
        for i in range(max(0, diagonal - columns + 1) + thread, min(diagonal + 1, rows), threads):
            j = diagonal - i
            if i == 0 or j == 0:
                diagonals[now, i] = (i + j) * GAP
            else:
                score = diagonals[earlier, i - 1] + (MATCH if a[i - 1] == b[j - 1] else MISMATCH)
                diagonals[now, i] = max(score, diagonals[before, i - 1] + GAP, diagonals[before, i] + GAP)
        device.syncthreads()
    if thread == 0:
        result[0] = diagonals[(rows + columns - 2) % 3, rows - 1]


def run(stream, a, b):
    """The global table, the local one, and the global score by the second kernel."""
    first, second = device.array(a, stream=stream), device.array(b, stream=stream)
    tables = []
    for local in (False, True):
        scores = device.empty((a.size + 1, b.size + 1), np.int32, stream=stream)
        device.launch(align, first, second, scores, local, grid=1, block=BLOCK, stream=stream)
        tables.append(scores.numpy())
    score = device.empty(1, np.int32, stream=stream)
    device.launch(align_shared, first, second, score, grid=1, block=BLOCK, stream=stream)
    return *tables, score.numpy()


def expect(a, b):
    """By the textbook's two loops."""
    tables = []
    for local in (False, True):
        table = np.zeros((a.size + 1, b.size + 1), np.int32)
        if not local:
            table[:, 0], table[0] = GAP * np.arange(a.size + 1), GAP * np.arange(b.size + 1)
        for i in range(1, a.size + 1):
            for j in range(1, b.size + 1):
                score = table[i - 1, j - 1] + (MATCH if a[i - 1] == b[j - 1] else MISMATCH)
                score = max(score, table[i - 1, j] + GAP, table[i, j - 1] + GAP)
                table[i, j] = max(score, 0) if local else score
        tables.append(table)
    return *tables, tables[0][-1:, -1]


def cases(random):
    """One letter, ragged lengths, more rows than threads."""
    for rows, columns in ((1, 1), (1, 9), (7, 3), (40, 61), (200, 150)):
        yield random.integers(0, 4, rows).astype(np.int8), random.integers(0, 4, columns).astype(np.int8)
