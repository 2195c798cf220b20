"""The 9-block ResNet generator of CycleGAN, and a factory that fts-convert takes: `cyclegan:factory`.

Only the state dict of the trained net is published, so the architecture is written down here.

Source: Zhu et al. 2017, arXiv:1703.10593, section 7.2 (c7s1-64, d128, d256, R256 x 9, u128, u64, c7s1-3).
"""

from __future__ import annotations

from torch import Tensor, nn

SIDE_PX = 256


class ResidualBlock(nn.Module):
    """x + norm(conv(relu(norm(conv(x)))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels, affine=True),
            nn.ReLU(inplace=True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels, affine=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)
