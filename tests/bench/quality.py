#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the chosen plans are from the lower bound of each machine.

quality.py PEAL [--large] [TOPOLOGY.xml ...]: for every topology (default: the corpus, then the
examples) and collective, modelled time over bound at three sizes, and the algorithm chosen for the
last. --large: bound, time, ratio and algorithm of the collectives that are bound exactly, at 1 GiB,
and the worst of them.
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


LARGE = ["allgather", "reduce-scatter", "allreduce", "broadcast"]


def large(peal, files):
    worst = []
    print("at 1 GiB: bound us, time us, ratio, algorithm")
    print("%-30s" % "topology" + "".join("%-40s" % c for c in LARGE))
    for path in files:
        name = os.path.basename(path)[:29]
        cells = []
        for collective in LARGE:
            row = plan(peal, path, collective, "1G")
            if row is None:
                cells.append("-")
                continue
            ratio = row["time_us"] / row["bound_us"]
            cells.append("%9.1f %9.1f %6.3f %s" %
                         (row["bound_us"], row["time_us"], ratio, row["algorithm"]))
            worst.append((ratio, name, collective, row["algorithm"], row["binding"]))
        print("%-30s" % name + "".join("%-40s" % c for c in cells))
    print("\nworst")
    for ratio, name, collective, algorithm, binding in sorted(worst, reverse=True)[:12]:
        print("%6.3f %-30s %-15s %-13s %s" % (ratio, name, collective, algorithm, binding))


def main():
    peal = sys.argv[1]
    wide = "--large" in sys.argv[2:]
    given = [arg for arg in sys.argv[2:] if arg != "--large"]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = os.environ.get("PEAL_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    files = given or (sorted(glob.glob(os.path.join(corpus, "nccl-topo", "*.xml"))) +
                             sorted(glob.glob(os.path.join(root, "examples", "topologies", "*.xml"))))
    if wide:
        large(peal, files)
        return
    print("time / bound at %s, algorithm at the last" % ", ".join(SIZES))
    print("%-34s" % "topology" + "".join("%-31s" % c for c in COLLECTIVES))
    for path in files:
        name = os.path.basename(path)[:33]
        print("%-34s" % name + "".join("%-31s" % cell(peal, path, c) for c in COLLECTIVES))


if __name__ == "__main__":
    main()
