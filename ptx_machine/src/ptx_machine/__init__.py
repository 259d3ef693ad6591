"""A machine that executes PTX where there is no GPU. It needs NumPy and ml_dtypes.

    arena = Arena()                       # the memory of the GPU
    Machine(Module(read(ptx), arena), "kernel", (1, 1, 1), (32, 1, 1), address_of_parameters).run()

reader                     PTX's text → functions of instructions
operands                   typed access to registers, constants and special registers
arithmetic, conversions    what instructions of numbers compute: a rule for each opcode
rounding                   arithmetic that NumPy has not
memory, accesses           the state spaces; loads, stores, atomic operations
control, collectives       branches and calls; barriers, and what warps do together
printing                   vprintf
machine                    threads take turns: groups that are at the same instruction, in an order that a seed decides

It owes nothing to a compiler, and follows NVIDIA's 'PTX ISA'. It is strict where hardware is lenient: memory that nobody
allocated, misaligned addresses, lanes outside their own mask and warps that are torn apart at a barrier are errors. It is not a
model of time, caches or weak memory: accesses happen in the order in which threads have their turns.
"""
