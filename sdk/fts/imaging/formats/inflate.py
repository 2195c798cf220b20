"""zlib streams are measured without keeping what they hold: decoders fill what is missing with black."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

_STEP_BYTES = 1 << 20


def inflated_bytes(pieces: Iterable[memoryview], limit: int) -> tuple[int, bool]:
    """Inflate one stream in small steps and count.

    Args:
        pieces: The stream, cut anywhere.
        limit: Stop once this many bytes have come out.

    Returns:
        Bytes that came out, and whether the stream reached its own end and checksum.

    Raises:
        zlib.error: The stream is damaged.
    """
    inflate, found = zlib.decompressobj(), 0
    for piece in pieces:
        pending: bytes | memoryview = piece
        while pending and found < limit and not inflate.eof:
            found += len(inflate.decompress(pending, min(_STEP_BYTES, limit - found)))
            pending = inflate.unconsumed_tail
    return found, inflate.eof
