#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the planner's closed forms are from the simulation of the plans they choose.

model_vs_sim.py PEAL [--table FILE] [TOPOLOGY.xml ...]: for every topology (default: the corpus,
then the examples), collective and algorithm at eight sizes, predicted over simulated time: the
median and the 95th percentile of the differences, those of each algorithm, and the worst ten, each
with what the model charges against what the simulation spent its time on. --table: all of them, a
line each, between tabs.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

SIZES = ["256", "4K", "32K", "256K", "1M", "8M", "64M", "256M"]
SECONDS = 20  # a simulation that takes longer is left out, and so are larger ones of the same
LARGE = {"cluster-h100-16.xml": ["hierarchical", "tree", "twohop"],
         "cluster-h100-128.xml": ["hierarchical"]}
SERVED = {
    "allreduce": ["oneshot", "twoshot", "doubling", "halving", "swing", "tree", "ring",
                  "hierarchical", "packed", "star"],
    "reduce-scatter": ["direct", "halving", "ring", "hierarchical", "packed"],
    "allgather": ["direct", "bruck", "halving", "ring", "hierarchical", "packed"],
    "broadcast": ["direct", "halving", "tree", "chain", "hierarchical", "packed"],
    "reduce": ["direct", "halving", "tree", "chain", "hierarchical", "packed"],
    "alltoall": ["direct", "bruck", "twohop"],
    "scatter": ["direct", "tree", "hierarchical"],
    "gather": ["direct", "tree", "hierarchical"],
}


def ask(peal, verb, point):
    """The verb's object; None: there is no such plan; raises TimeoutExpired."""
    topology, collective, algorithm, size = point
    done = subprocess.run([peal, verb, topology, "-c", collective, "-a", algorithm, "--bytes",
                           size, "--json"], capture_output=True, text=True, check=False,
                          timeout=SECONDS)
    return json.loads(done.stdout) if done.returncode == 0 else None


def compare(peal, path, collective, algorithm):
    """(difference, point, result) at all sizes."""
    for size in SIZES:
        point = (path, collective, algorithm, size)
        try:
            result = ask(peal, "sim", point)
        except subprocess.TimeoutExpired:
            print("left out from this size on: %s %s %s %s" % point, file=sys.stderr)
            return
        if result is None or not result["model_us"] or not result["bytes"]:
            continue
        yield result["model_us"] / result["time_us"] - 1, point, result


def spent(result):
    """What the critical path is made of, and the busiest link."""
    parts = {}
    for step in result["critical_path"]:
        parts[step["kind"]] = parts.get(step["kind"], 0) + step["own_us"]
    moves = [s for s in result["critical_path"] if s["kind"] in ("move", "transfer")]
    text = ", ".join("%s %.1f" % part for part in sorted(parts.items()))
    if moves:
        longest = max(moves, key=lambda s: s["own_us"])
        text += " in %d steps, the longest %.1f (rank %d: %s)" % (
            len(moves), longest["own_us"], longest["rank"], longest["text"])
    if result["links"]:
        busiest = max(result["links"], key=lambda link: link["share"])
        text += "; busiest link %s, %.0f %% of the time" % (busiest["resource"],
                                                           100 * busiest["share"])
    return text


def explain(peal, point, result):
    row = ask(peal, "plan", point)["rows"][-1]
    print("      %s, tile %s: model %.1f us, simulated %.1f us" %
          (row["detail"], row["tile_bytes"] or "-", result["model_us"], result["time_us"]))
    print("      the model: %s-bound by %s, start-ups %.1f us" %
          (row["regime"], row["binding"], row["alpha_us"]))
    print("      the simulation (us): " + spent(result))


def percentile(values, share):
    return 100 * values[int(share * (len(values) - 1))]


def summarise(found):
    plain, by_algorithm = sorted(abs(f[0]) for f in found), {}
    print("%d compared: median %.1f %%, p95 %.1f %%" %
          (len(plain), percentile(plain, 0.5), percentile(plain, 0.95)))
    for d, point, _ in found:
        by_algorithm.setdefault(point[1:3], []).append(abs(d))
    for key, values in sorted(by_algorithm.items()):
        values.sort()
        print("  %-15s %-13s %4d  median %5.1f %%  p95 %5.1f %%  worst %5.1f %%" %
              (*key, len(values), percentile(values, 0.5), percentile(values, 0.95),
               percentile(values, 1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peal")
    parser.add_argument("--table")
    parser.add_argument("topologies", nargs="*")
    args = parser.parse_intermixed_args()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = os.environ.get("PEAL_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    files = args.topologies or (
        sorted(glob.glob(os.path.join(corpus, "nccl-topo", "*.xml"))) +
        sorted(glob.glob(os.path.join(root, "examples", "topologies", "*.xml"))))
    table = open(args.table, "w", encoding="utf-8") if args.table else None
    found = []
    for path in files:
        name = os.path.basename(path)
        for collective, algorithms in SERVED.items():
            for algorithm in algorithms:
                if algorithm not in LARGE.get(name, [algorithm]):
                    continue
                for d, point, result in compare(args.peal, path, collective, algorithm):
                    found.append((d, point, result))
                    if table:
                        print("%+.4f" % d, name, *point[1:], "%.3f" % result["time_us"],
                              result["detail"], sep="\t", file=table, flush=True)
    if not found:
        sys.exit("nothing could be compared")
    summarise(found)
    print("worst:")
    for d, point, result in sorted(found, key=lambda f: -abs(f[0]))[:10]:
        print("  %+7.1f %%  %s %s %s %s" % (100 * d, os.path.basename(point[0]), *point[1:]))
        explain(args.peal, point, result)


if __name__ == "__main__":
    main()
