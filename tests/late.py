"""Work that a GPU has not done yet when the host goes on: kernels that wait, for some time or for the host, and fill an array.

late = Late()
late.fill(address, 5, stream, wait=50_000_000)      # 50 ms later
gate = Gate()
late.fill(address, 5, stream, gate=gate)
gate.open()                                         # now it goes on
"""

import ctypes

from cuda_device.runtime.gpu import driver

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry late_fill(.param .u64 p_to, .param .u32 p_count, .param .u32 p_value, .param .u64 p_wait, .param .u64 p_gate)
{
  .reg .pred %p; .reg .u32 %i, %n, %v, %b, %t, %g; .reg .u64 %a, %o, %start, %now, %w, %gate;
  ld.param.u64 %a, [p_to]; ld.param.u32 %n, [p_count]; ld.param.u32 %v, [p_value]; ld.param.u64 %w, [p_wait];
  ld.param.u64 %gate, [p_gate];
  mov.u64 %start, %globaltimer;
spin:
  setp.eq.u64 %p, %gate, 0;
  @%p bra timed;
  ld.volatile.global.u32 %g, [%gate];
  setp.ne.u32 %p, %g, 0;
  @%p bra fill;
timed:
  nanosleep.u32 1000;
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %p, %now, %w;
  @%p bra spin;
fill:
  mov.u32 %i, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %b, %t, %i;
  setp.ge.u32 %p, %i, %n;
  @%p bra done;
  mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; st.global.u32 [%a], %v;
done:
  ret;
}
"""
WAIT = 50_000_000  # Nanoseconds.
LONGEST = 20_000_000_000
COUNT = 1 << 16


class Gate:
    """What a kernel waits for, until the host opens it; but not for ever, so that a test which goes wrong ends."""

    def __init__(self):
        self._host, self.address = driver.allocate_mapped(4)
        self._flag = ctypes.c_uint32.from_address(self._host)
        self._flag.value = 0

    def open(self):
        """Lets the kernel go on."""
        self._flag.value = 1


class Late:
    """The kernel, in the current context."""

    def __init__(self):
        self._fill = driver.get_kernel(driver.load_library(PTX), "late_fill")

    def fill(self, address, value, handle, wait=WAIT, count=COUNT, gate=None):
        """Fills `count` words at `address`, on the stream `handle`, after `wait` nanoseconds, or when the gate is open."""
        values = (
            ctypes.c_uint64(address),
            ctypes.c_uint32(count),
            ctypes.c_uint32(value & 0xFFFFFFFF),
            ctypes.c_uint64(LONGEST if gate else wait),
            ctypes.c_uint64(gate.address if gate else 0),
        )
        launch(self._fill, values, handle, grid=(count + 255) // 256, block=256)


def launch(kernel, values, handle, grid=1, block=1, shared=0):
    """Launches a kernel with C values for parameters."""
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    driver.launch(kernel, (grid, 1, 1), (block, 1, 1), shared, handle, ctypes.addressof(pointers))
