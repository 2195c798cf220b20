"""Integer grids: which one (Scheme) and where it lies on the real axis (QuantParams).

numpy is imported on use: `fts targets` reads the schemes of all profiles without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """An integer grid.

    Attributes:
        bits: Bits that the values use; 7 stored in int8 keeps u8*s8 pairs inside 16 bits on x86 without VNNI.
        signed: int8 (True) or uint8 (False) storage.
        symmetric: zero_point is 0 and the range is the same on both sides (signed only).
        per_channel: One scale a channel, else one a tensor.
    """

    bits: int
    signed: bool
    symmetric: bool
    per_channel: bool

    @property
    def qmin(self) -> int:
        """Least integer value; symmetric grids leave out the one value without a mirror image."""
        if not self.signed:
            return 0
        return -(1 << (self.bits - 1)) + (1 if self.symmetric else 0)

    @property
    def qmax(self) -> int:
        """Greatest integer value."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def storage(self) -> np.dtype[np.int8] | np.dtype[np.uint8]:
        """numpy dtype that holds the values."""
        import numpy as np

        return np.dtype(np.int8) if self.signed else np.dtype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantParams:
    """real = scale * (q - zero_point).

    Attributes:
        scale: float32 (C,), > 0; C = 1 per tensor.
        zero_point: int32 (C,), within the scheme's qmin..qmax.
        scheme: The grid.
        axis: Axis that C runs along, None per tensor.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int32]
    scheme: Scheme
    axis: int | None = None
