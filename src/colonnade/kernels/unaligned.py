"""64-bit words at any byte of an array: numba has no notation for it."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# numba's extension interface has no types.

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.imputils import impl_ret_untracked
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

__all__ = ["load_word", "store_word"]

_WORD = ir.IntType(64)


def _untyped(function: Any) -> Any:
    """Make an intrinsic, as which a type checker would take it for a function of its own text."""
    return intrinsic(function)


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    byte = builder.gep(data, [offset])
    return builder.bitcast(byte, _WORD.as_pointer())


@_untyped
def load_word(typing_context, body, offset):
    """Return the little-endian uint64 at ``body[offset : offset + 8]``; bounds are not checked."""

    def generate(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments)
        word = builder.load(address, align=1, typ=_WORD)
        return impl_ret_untracked(context, builder, signature.return_type, word)

    return types.uint64(body, types.intp), generate


@_untyped
def store_word(typing_context, body, offset, word):
    """Write a uint64 to ``body[offset : offset + 8]``; bounds are not checked."""

    def generate(context, builder, signature, arguments):
        array, offset_value, value = arguments
        address = _address(context, builder, signature.args[0], array, offset_value)
        builder.store(value, address, align=1)
        return context.get_dummy_value()

    return types.void(body, types.intp, types.uint64), generate
