"""What each decoded instruction takes from the stack and leaves there, and whether a decoded function is well formed."""

from cuda_device.bytecode.instructions import TERMINATORS, Opcode


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
        (1, 2): "FOR_ITER GET_LEN MATCH_SEQUENCE",
        (2, 0): "STORE_ATTR",
        (2, 1): "BINARY COMPARE IS CONTAINS SUBSCR",
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
