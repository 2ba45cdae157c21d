#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the planner's closed forms are from the simulation of the plans they choose.

model_vs_sim.py PEAL [TOPOLOGY.xml ...]: for every topology (default: the corpus, then the
examples), collective and algorithm at eight sizes, predicted over simulated time; the median and
the 95th percentile of the differences, and the worst ten.
"""
import glob
import json
import os
import subprocess
import sys

SIZES = ["256", "4K", "32K", "256K", "1M", "4M", "16M", "64M"]
SECONDS = 20  # a simulation that takes longer is left out
SERVED = {
    "allreduce": ["oneshot", "twoshot", "doubling", "tree", "ring", "hierarchical"],
    "reduce-scatter": ["direct", "ring"],
    "allgather": ["direct", "ring", "packed"],
    "broadcast": ["direct", "tree", "chain"],
    "reduce": ["direct", "tree", "chain"],
    "alltoall": ["direct"],
}


def difference(peal, topology, collective, algorithm, size):
    try:
        done = subprocess.run([peal, "sim", topology, "-c", collective, "-a", algorithm, "--bytes",
                               size, "--json"], capture_output=True, text=True, check=False,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print("left out: %s %s %s %s" % (topology, collective, algorithm, size), file=sys.stderr)
        return None
    if done.returncode != 0:
        return None
    result = json.loads(done.stdout)
    if not result["model_us"] or result["bytes"] == 0:
        return None
    return result["model_us"] / result["time_us"] - 1


def main():
    peal = sys.argv[1]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = os.environ.get("PEAL_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    files = sys.argv[2:] or (sorted(glob.glob(os.path.join(corpus, "nccl-topo", "*.xml"))) +
                             sorted(glob.glob(os.path.join(root, "examples", "topologies", "*.xml"))))
    found, by_algorithm = [], {}
    for path in files:
        for collective, algorithms in SERVED.items():
            for algorithm in algorithms:
                for size in SIZES:
                    d = difference(peal, path, collective, algorithm, size)
                    if d is not None:
                        found.append((abs(d), d, os.path.basename(path), collective, algorithm, size))
                        by_algorithm.setdefault((collective, algorithm), []).append(abs(d))
    found.sort(reverse=True)
    if not found:
        sys.exit("nothing could be compared")
    plain = sorted(f[0] for f in found)
    print("%d compared: median %.1f %%, p95 %.1f %%" %
          (len(plain), 100 * plain[len(plain) // 2], 100 * plain[int(0.95 * (len(plain) - 1))]))
    for key, values in sorted(by_algorithm.items()):
        values.sort()
        print("  %-15s %-13s median %5.1f %%  worst %5.1f %%" %
              (*key, 100 * values[len(values) // 2], 100 * values[-1]))
    print("worst:")
    for _, d, name, collective, algorithm, size in found[:10]:
        print("  %+7.1f %%  %s %s %s %s" % (100 * d, name, collective, algorithm, size))


if __name__ == "__main__":
    main()
