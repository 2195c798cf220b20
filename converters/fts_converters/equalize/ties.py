"""Union-find over channels: those that must share a factor, and the reason why some must keep the factor 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts_converters.passes.contract import Refusal

Ids = npt.NDArray[np.int64]


class Ties:
    """Channels have numbers; what is tied to a blocked channel is blocked, for the reason that came first.

    Source: Tarjan 1975, "Efficiency of a good but not linear set union algorithm" (path halving, smaller root wins).
    """

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._blocked: dict[int, Refusal] = {}

    def fresh(self, count: int) -> Ids:
        """(count,) new channels, each on its own."""
        first = len(self._parent)
        self._parent.extend(range(first, first + count))
        return np.arange(first, first + count)

    def root(self, channel: int) -> int:
        """The number that stands for all channels tied to this one."""
        while self._parent[channel] != channel:
            self._parent[channel] = self._parent[self._parent[channel]]
            channel = self._parent[channel]
        return channel

    def roots(self, channels: Ids) -> Ids:
        """`root` of each, same shape."""
        return np.array([self.root(int(c)) for c in channels.reshape(-1)], np.int64).reshape(channels.shape)

    def tie(self, first: Ids, second: Ids) -> None:
        """Let channels share a factor pair by pair; both (n,)."""
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            low, high = sorted((self.root(a), self.root(b)))
            if low != high:
                self._parent[high] = low
                reason = self._blocked.pop(high, None)
                if reason is not None:
                    self._blocked.setdefault(low, reason)

    def tie_all(self, channels: Ids) -> int:
        """Let all of them share one factor; the root."""
        self.tie(channels[1:], np.full(len(channels) - 1, channels[0]))
        return self.root(int(channels[0]))

    def block(self, channels: Ids, refusal: Refusal) -> None:
        """Keep channels, and all that are tied to them, at factor 1."""
        for channel in channels.tolist():
            self._blocked.setdefault(self.root(channel), refusal)

    def is_blocked(self, channels: Ids) -> bool:
        """True when every one of them is."""
        return all(self.root(c) in self._blocked for c in channels.tolist())

    def refusal(self, root: int) -> Refusal | None:
        """Why the channels of a root are blocked; None when they are free."""
        return self._blocked.get(root)
