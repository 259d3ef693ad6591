"""Functions of ours in Python that kernels on the CPU call: memory by addresses, calls of what lies at an address."""

import ctypes
import re

import numpy as np
import pytest
from processes import python

import cuda_device as device
from cuda_device.codegen import llvm
from cuda_device.cpu import host_code, machine_code, records, scheduler
from cuda_device.device.memory import array_at
from cuda_device.types.model import INT64, UINT32

Account = np.dtype([("owner", np.uint32), ("balance", np.int64), ("visits", np.uint32, (3,))], align=True)


def total(accounts, many):
    """The sum of the balances; the last of the visits is counted."""
    found = np.int64(0)
    for i in range(many):
        account = array_at(Account, accounts + Account.itemsize * i)
        found += account[0].balance
        account[0].visits[2] += 1
    return found


def each(function, many):
    for i in range(many):
        host_code.call(function, np.int64(i))


def function(source, *types):
    """A function compiled for this process, which ctypes can call once its types are set."""
    code = machine_code.compile_native(host_code.function_text(source, types, "main"), exports=("main",), alone=True)
    made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address("main"))
    made.code = code
    return made


def test_records_are_read_and_written_where_they_are():
    accounts = np.zeros(5, Account)
    accounts["balance"] = [1, 20, 300, -4000, 1 << 40]
    assert function(total, INT64, INT64)(accounts.ctypes.data, 4) == -3679
    assert accounts["visits"].tolist() == [[0, 0, 1]] * 4 + [[0, 0, 0]]


def test_what_lies_at_an_address_is_called():
    seen = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)(seen.append)
    function(each, INT64, INT64)(ctypes.cast(callback, ctypes.c_void_p).value, 3)
    assert seen == [0, 1, 2]


def test_what_is_no_device_code_is_refused_as_anywhere():
    def opens(address):
        return open(address)

    with pytest.raises(device.CompileError, match="open"):
        host_code.function_text(opens, (INT64,), "main")


@pytest.mark.parametrize("symbol", sorted(records.SUPPORT))
def test_what_kernels_call_is_a_module_of_its_own(symbol):
    text = scheduler.scheduler_text(symbol) if symbol in records.EXPORTS else host_code.support_text(symbol)
    llvm.parse(text)
    assert f"@{symbol}(" in text and not re.search("(?m)^declare .*@host_", text)


def test_the_same_text_in_each_process():
    program = "from cuda_device.cpu import scheduler; print(scheduler.scheduler_text('cuda_device.crew'))"
    texts = [python("-c", program, PYTHONHASHSEED=seed).stdout for seed in (1, 2)]
    assert texts[0] == texts[1] and "define void @cuda_device.crew(" in texts[0]


def test_only_helpers_that_are_called_are_there():
    def plain(a, b):
        return a * 3 + b

    assert "host_" not in host_code.function_text(plain, (UINT32, UINT32), "main")
