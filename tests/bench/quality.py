#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the chosen plans are from the lower bound of each machine.

quality.py PEAL [TOPOLOGY.xml ...]: for every topology (default: the corpus, then the examples)
and collective, modelled time over bound at three sizes, and the algorithm chosen for the last.
"""
import glob
import json
import os
import subprocess
import sys

SIZES = ["64K", "1M", "1G"]
COLLECTIVES = ["allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "alltoall"]


def plan(peal, topology, collective, size):
    done = subprocess.run([peal, "plan", topology, "-c", collective, "--bytes", size, "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    return json.loads(done.stdout)["rows"][-1]


def cell(peal, topology, collective):
    rows = [plan(peal, topology, collective, size) for size in SIZES]
    if None in rows:
        return "-"
    ratios = "/".join("%.2f" % (row["time_us"] / row["bound_us"]) for row in rows)
    return "%s %s" % (ratios, rows[-1]["algorithm"])


def main():
    peal = sys.argv[1]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = os.environ.get("PEAL_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    files = sys.argv[2:] or (sorted(glob.glob(os.path.join(corpus, "nccl-topo", "*.xml"))) +
                             sorted(glob.glob(os.path.join(root, "examples", "topologies", "*.xml"))))
    print("time / bound at %s, algorithm at the last" % ", ".join(SIZES))
    print("%-34s" % "topology" + "".join("%-31s" % c for c in COLLECTIVES))
    for path in files:
        name = os.path.basename(path)[:33]
        print("%-34s" % name + "".join("%-31s" % cell(peal, path, c) for c in COLLECTIVES))


if __name__ == "__main__":
    main()
