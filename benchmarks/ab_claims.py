"""How often `fts-profile` claims a difference: `python benchmarks/ab_claims.py`.

A net against itself, and the same net with 10 % more work against it, each 20 times, through the code that gives the
ratio of `fts-profile`: pairs of fresh processes that take turns. Expected: at most 1 false claim of 20, at least 18 of 20
found. The nets are chains of equal 3x3 convolutions, 10 and 11 of them between the first and the last. Needs onnx (extra
`convert`). On a busy machine it takes longer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from runtime_overhead import Net, bundle_of

from fts.engines.threads import available_cpus
from fts.profile.ab_ratio import USUAL_PAIRS
from fts.profile.clock import SystemClock
from fts.profile.compare_nets import compare_nets
from fts.profile.measured_net import INPUT_KEY, NetSpec

SIZE_PX, CHANNELS, LAYERS = 64, 32, 10


def spec(folder: Path, layers: int, threads: int | None) -> NetSpec:
    """A bundle of a chain with that many equal layers, and its feed."""
    net = Net(f"{layers} layers", SIZE_PX, CHANNELS, layers + 2)
    (folder / str(layers)).mkdir()
    bundle = bundle_of(net, net.model(), folder / str(layers))
    feeds = folder / str(layers) / "feeds.npz"
    np.savez(feeds, **{f"{INPUT_KEY}x": np.random.default_rng(1).random(net.spec.static_shape, dtype=np.float32)})
    return NetSpec(bundle=str(bundle), which="target", strict=True, simulate=False, threads=threads, feeds=str(feeds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=USUAL_PAIRS)
    parser.add_argument("--seconds", type=float, default=5.0, help="measuring time of one comparison")
    parser.add_argument("--threads", type=int, default=None, help="intra-op threads (default: all usable)")
    args = parser.parse_args()
    print(
        f"onnxruntime {onnxruntime.__version__}, {available_cpus()} CPUs, {args.pairs} pairs, {args.seconds:g} s each"
    )
    claims = {"itself": 0, "10 % more work": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base, more = (spec(folder, layers, args.threads) for layers in (LAYERS, LAYERS * 11 // 10))
        for trial in range(args.trials):
            for what, other in (("itself", base), ("10 % more work", more)):
                begin = time.perf_counter()
                found = compare_nets(
                    other, base, SystemClock(), pairs=args.pairs, seconds=args.seconds, warm_cap_s=0.5, seed=trial
                )
                claims[what] += found.differs
                took = time.perf_counter() - begin
                print(
                    f"{trial + 1:>3} {what:<15} {found.measure:<9} {found.ratio:.4f} [{found.low:.4f}, {found.high:.4f}] spread "
                    f"{100 * found.spread:.2f} % {'CLAIMED' if found.differs else 'no difference'}  {took:.1f} s",
                    flush=True,
                )
    false, detected = claims["itself"], claims["10 % more work"]
    print(
        f"false claims {false} of {args.trials} (at most 1 of 20); found {detected} of {args.trials} (at least 18 of 20)"
    )
    return 0 if false * 20 <= args.trials and detected * 20 >= 18 * args.trials else 1


if __name__ == "__main__":
    sys.exit(main())
