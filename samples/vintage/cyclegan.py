"""The 9-block ResNet generator of CycleGAN, and a factory that fts-convert takes: `cyclegan:factory`.

Only the state dict of the trained net is published, so the architecture is written down here.

Source: Zhu et al. 2017, arXiv:1703.10593, section 7.2 (c7s1-64, d128, d256, R256 x 9, u128, u64, c7s1-3).
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
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
        change: Tensor = self.block(x)
        return x + change


class Generator(nn.Module):
    """RGB -1..1 (N, 3, H, W), H and W multiples of 4, to the same shape and range."""

    def __init__(self, blocks: int = 9, channels: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ReflectionPad2d(3), *_stage(nn.Conv2d(3, channels, 7))]
        for width in (channels, 2 * channels):
            layers += _stage(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1))
        layers += [ResidualBlock(4 * channels) for _ in range(blocks)]
        for width in (4 * channels, 2 * channels):
            layers += _stage(nn.ConvTranspose2d(width, width // 2, 3, stride=2, padding=1, output_padding=1))
        layers += [nn.ReflectionPad2d(3), nn.Conv2d(channels, 3, 7), nn.Tanh()]
        self.model = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        picture: Tensor = self.model(image)
        return picture


def _stage(conv: nn.Conv2d | nn.ConvTranspose2d) -> list[nn.Module]:
    return [conv, nn.InstanceNorm2d(conv.out_channels, affine=True), nn.ReLU(inplace=True)]


def factory() -> tuple[nn.Module, Tensor]:
    """The trained net and an example input; the state dict's path stands in $VINTAGE_WEIGHTS."""
    weights = Path(os.environ["VINTAGE_WEIGHTS"])
    net = Generator()
    net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return net, torch.rand(1, 3, SIDE_PX, SIDE_PX) * 2 - 1
