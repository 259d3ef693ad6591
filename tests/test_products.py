"""Places of 32 bits times a size become wide in the instruction that multiplies."""

import pytest

from cuda_device.codegen.gpu.products import widen

PRODUCT = """.visible .entry k(
)
{
	ld.param.b32 	%r1, [k_param_0];
	cvt.SIGN 	%rd1, %r1;
	shl.b64 	%rd2, %rd1, COUNT;
	add.s64 	%rd3, %rd4, %rd2;
	ret;
}
"""


@pytest.mark.parametrize(("sign", "type"), [("u64.u32", "u32"), ("s64.s32", "s32")])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_products_of_narrow_numbers(sign, type, count):
    text = PRODUCT.replace("SIGN", sign).replace("COUNT", str(count))
    shift = f"\tshl.b64 \t%rd2, %rd1, {count};"
    assert widen(text) == text.replace(shift, f"\tmul.wide.{type} \t%rd2, %r1, {1 << count};")


def test_products_that_stay():
    """A register that something else writes, too, may hold another number by then."""
    text = PRODUCT.replace("SIGN", "u64.u32").replace("COUNT", "2")
    for other in (
        text.replace("COUNT", "2").replace(", 2;", ", 31;"),
        text.replace("cvt.u64.u32", "cvt.u64.u16"),
        text.replace("\tshl", "\tadd.s32 \t%r1, %r1, 1;\n\tshl"),
        text.replace("\tshl", "\t@%p1 add.s32 \t%r1, %r1, 1;\n\tshl"),
        text.replace("\tshl", "\tld.global.v2.b32 \t{%r7, %r1}, [%rd9];\n\tshl"),
        text.replace("\tshl", "\t{ .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd9; }\n\tshl"),
        text.replace("\tshl", "\tmov.b64 \t%rd1, %rd7;\n\tshl"),
        text.replace("\tshl", "\tshfl.sync.idx.b32 \t%r1|%p1, %r8, 0, 31, -1;\n\tshl"),
    ):
        assert widen(other) == other
    assert widen(text) != text
    two = text + text.replace("entry k", "entry f").replace("\tshl", "\tadd.s32 \t%r1, %r1, 1;\n\tshl")
    assert widen(two) == widen(text) + two[len(text) :]
