"""What the CPU target uses of the core beside public names and `extend`: a list that may only become shorter."""

from test_rings import CPU, private_names

PRIVATE = {
    "": "lower",
    "cache.entries": "Kept",
    "codegen": "llvm",
    "codegen.emit": "llvm_writer",
    "codegen.emit.dialect": "AtomicAccess Dialect Emitter LLVM_ORDERS PAIR",
    "codegen.llvm": "Linked LlvmModule Machine parse",
    "compiler": "most_shared_of",
    "device.memory": "BLOCK_WORDS array_at",
    "device.options": "DEFAULTS",
    "device.packing": "reinterpret",
    "errors": "Index NOWHERE",
    "infer": "engine",
    "instrument.outline": "Print ProgramSummary ReportPlace Status",
    "ir": "dominance",
    "ir.dominance": "Definitions Loop Term back_edges copied_blocks dominates dominators drop_dead ends_with_check "
    "natural_loops predecessors renamed_blocks reverse_postorder substitute used",
    "ir.nodes": "Block Builder Edge Function Module Op Value",
    "ir.ops": "Effect Order Scope",
    "optimise": "points_to",
    "optimise.inlining": "inline",
    "optimise.symbolic_bounds": "Proofs Sum checks_a_bound drop_checks is_integer",
    "runtime.gpu.report_message": "ALL_AT_BARRIER Waiting waiting_report",
    "types.architectures": "Architecture MAXIMUM_STATIC_SHARED",
    "types.known": "of_type",
    "types.model": "Array BOOL FLOAT16 FLOAT32 FLOAT64 INT32 INT64 NoneType Number Pointer Ref Space Struct Tuple "
    "Type UINT32",
}
MOST = 80


def test_the_cpu_target_uses_these_private_names():
    listed = {
        f"cuda_device.{module}.{name}".replace("..", ".") for module, names in PRIVATE.items() for name in names.split()
    }
    assert {name for path in CPU for _, name in private_names(path, "cuda_device.cpu")} == listed
    assert len(listed) <= MOST
