#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the planner's closed forms are from the simulation of the plans they choose.

model_vs_sim.py PEAL [TOPOLOGY.xml ...]: for every topology (default: the corpus, then the
examples), collective and algorithm at eight sizes, predicted over simulated time: the median and the
95th percentile of the differences, those of each algorithm, and the worst ten, each with what the
model charges against what the simulation spent its time on.

In parts: -c and -a take one collective or algorithm, --part I/N the I-th of every N topologies.
--table FILE writes all points, a line each, between tabs; --join FILE... reads such tables instead
of simulating, and sums them up. --median and --p95 (in %): fails above them.
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
    "allreduce": ["oneshot", "eager", "twoshot", "doubling", "halving", "swing", "tree", "ring",
                  "hierarchical", "packed", "star"],
    "reduce-scatter": ["oneshot", "eager", "direct", "halving", "ring", "hierarchical", "packed"],
    "allgather": ["oneshot", "eager", "direct", "bruck", "halving", "ring", "hierarchical", "packed"],
    "broadcast": ["oneshot", "eager", "direct", "halving", "tree", "chain", "hierarchical", "packed"],
    "reduce": ["oneshot", "eager", "direct", "halving", "tree", "chain", "hierarchical", "packed"],
    "alltoall": ["oneshot", "eager", "direct", "bruck", "twohop"],
    "scatter": ["oneshot", "eager", "direct", "tree", "hierarchical"],
    "gather": ["oneshot", "eager", "direct", "tree", "hierarchical"],
}


def ask(peal, verb, point):
    """The verb's object; None: there is no such plan; raises TimeoutExpired."""
    topology, collective, algorithm, size = point
    done = subprocess.run([peal, verb, topology, "-c", collective, "-a", algorithm, "--bytes",
                           size, "--json"], capture_output=True, text=True, check=False,
                          timeout=SECONDS)
    return json.loads(done.stdout) if done.returncode == 0 else None


def compare(peal, path, collective, algorithm, sizes):
    """(difference, point, result) at all sizes."""
    for size in sizes:
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
    """Prints it; returns the median and the 95th percentile, in %."""
    plain, by_algorithm = sorted(abs(f[0]) for f in found), {}
    median, p95 = percentile(plain, 0.5), percentile(plain, 0.95)
    above = sum(1 for d in plain if d > 0.15)
    print("%d compared: median %.2f %%, p95 %.1f %%, %d above 15 %%" %
          (len(plain), median, p95, above))
    for d, point in found:
        by_algorithm.setdefault(point[1:3], []).append(abs(d))
    for key, values in sorted(by_algorithm.items()):
        values.sort()
        print("  %-15s %-13s %4d  median %5.1f %%  p95 %5.1f %%  worst %5.1f %%" %
              (*key, len(values), percentile(values, 0.5), percentile(values, 0.95),
               percentile(values, 1)))
    return median, p95


def topologies(args):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = os.environ.get("PEAL_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    files = args.topologies or (
        sorted(glob.glob(os.path.join(corpus, "nccl-topo", "*.xml"))) +
        sorted(glob.glob(os.path.join(root, "examples", "topologies", "*.xml"))))
    part, parts = (int(x) for x in args.part.split("/"))
    return files[part - 1::parts]


def simulated(args):
    """(difference, point) of all that were asked for."""
    table = open(args.table, "w", encoding="utf-8") if args.table else None
    for path in topologies(args):
        name = os.path.basename(path)
        for collective, algorithms in SERVED.items():
            for algorithm in algorithms:
                if (args.collective not in (None, collective) or
                        args.algorithm not in (None, algorithm) or
                        algorithm not in LARGE.get(name, [algorithm])):
                    continue
                for d, point, result in compare(args.peal, path, collective, algorithm,
                                                args.sizes.split(",")):
                    yield d, point
                    if table:
                        print("%+.4f" % d, *point, "%.3f" % result["time_us"],
                              result["detail"], sep="\t", file=table, flush=True)


def joined(paths):
    for path in paths:
        with open(path, encoding="utf-8") as table:
            for line in table:
                fields = line.rstrip("\n").split("\t")
                yield float(fields[0]), tuple(fields[1:5])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("peal")
    parser.add_argument("-c", "--collective", choices=SERVED)
    parser.add_argument("-a", "--algorithm")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--table")
    parser.add_argument("--join", nargs="+", default=[])
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--median", type=float, default=float("inf"))
    parser.add_argument("--p95", type=float, default=float("inf"))
    parser.add_argument("topologies", nargs="*")
    return parser.parse_intermixed_args()


def main():
    args = arguments()
    found = list(joined(args.join) if args.join else simulated(args))
    if not found:
        sys.exit("nothing could be compared")
    median, p95 = summarise(found)
    if args.worst:
        print("worst:")
    for d, point in sorted(found, key=lambda f: -abs(f[0]))[:args.worst]:
        print("  %+7.1f %%  %s %s %s %s" % (100 * d, os.path.basename(point[0]), *point[1:]))
        explain(args.peal, point, ask(args.peal, "sim", point))
    if median > args.median or p95 > args.p95:
        sys.exit("above %g %% (median) or %g %% (p95)" % (args.median, args.p95))


if __name__ == "__main__":
    main()
