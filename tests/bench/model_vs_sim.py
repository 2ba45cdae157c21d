#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the planner's closed forms are from the simulation of the plans they choose.

model_vs_sim.py PEAL [TOPOLOGY.xml ...]: for every topology (default: the corpus, the examples, and
ranks of one memory), collective and algorithm at eight sizes, predicted over simulated time: the
median and the 95th percentile of the differences, those of each algorithm and collective, and the
worst ten, each with what the model charges against what the simulation spent its time on. A
sendrecv is that of one pair, and those by lists: every rank to the next one, to both neighbours, and
all to the first.

In parts: -c and -a take one collective or algorithm, --part I/N the I-th of every N topologies.
--table FILE writes all points, a line each, between tabs; --join FILE... reads such tables instead
of simulating, and sums them up. --median and --p95 (in %): fails above them. --every: of every
candidate, not of those that are chosen.

The points come from tests/cost_points beside PEAL, one process a topology.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

SIZES = ["256", "4K", "32K", "256K", "1M", "8M", "64M", "256M"]
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# What takes minutes is left out: of so many ranks these algorithms, up to this size.
LARGE = {"cluster-h100-16.xml": {"hierarchical": "64M", "tree": "64M", "twohop": "8M"},
         "cluster-h100-128.xml": {"hierarchical": "1M"}}
# Of ranks of one memory only what serves no others: what packets and loads cost there was measured
# on processors, and is no matter of links, which are what is simulated.
MEMORY = {"host:2": "shelf", "host:4": "shelf", "host:8": "shelf"}


def number(size):
    return int(size[:-1]) * UNITS[size[-1]] if size[-1] in UNITS else int(size)


def sendrecv(shape, ranks):
    """The options of a sendrecv as cost_points has it."""
    last = ranks - 1
    return {"one": ["--peer", str(last)], "shift": ["--shift", "1"],
            "sides": ["--shift", "1,-1" if ranks > 2 else "1"],
            "incast": ["--pairs", ",".join("%d>0" % r for r in range(1, ranks))]}[shape]


def ask(peal, verb, point):
    """The verb's object, of what a point is."""
    topology, collective, algorithm, size = point
    words, shape = [peal, verb, topology], collective.partition("-")[2]
    if topology.startswith("host:"):
        words[2:] = ["host", "--ranks", topology[5:]]
    if collective.startswith("sendrecv"):
        info = subprocess.run([peal, "topo", *words[2:], "--json"], capture_output=True, text=True,
                              check=True)
        words += sendrecv(shape, len(json.loads(info.stdout)["ranks"]))
        collective = "sendrecv"
    words += ["-c", collective, "-a", algorithm, "--json"]
    if collective != "barrier":
        words += ["--bytes", size]
    if algorithm == "compressed":
        words += ["--wire", "bf16"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def points(args, path, collective, algorithm, sizes):
    """(difference, point, the rest of the line) of one topology."""
    words = [os.path.join(os.path.dirname(args.peal), "tests", "cost_points")]
    words += ["-c", collective] if collective else []
    words += ["-a", algorithm] if algorithm else []
    words += ["-k"] if args.every else []
    done = subprocess.run([*words, path, *map(str, sizes)], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode == 3:  # no accelerators in the file
        return
    if done.returncode:
        sys.exit("%s failed: %s" % (words[0], path))
    for line in done.stdout.splitlines():
        collective, algorithm, size, model, time, detail = line.split("\t")
        yield float(model) / float(time) - 1, (path, collective, algorithm, size), (time, detail)


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


def explain(peal, point):
    table, result = ask(peal, "plan", point), ask(peal, "sim", point)
    if not table or not result:
        return
    row = table["rows"][-1]
    print("      %s, tile %s: model %.1f us, simulated %.1f us" %
          (row["detail"], row["tile_bytes"] or "-", row["time_us"], result["time_us"]))
    print("      the model: %s-bound by %s, start-ups %.1f us" %
          (row["regime"], row["binding"], row["alpha_us"]))
    print("      the simulation (us): " + spent(result))


def percentile(values, share):
    return 100 * values[int(share * (len(values) - 1))]


def print_row(name, differences):
    values = sorted(differences)
    print("  %-28s %5d  median %5.1f %%  p95 %5.1f %%  worst %6.1f %%  above 15 %%: %d" %
          (name, len(values), percentile(values, 0.5), percentile(values, 0.95),
           percentile(values, 1), sum(1 for d in values if d > 0.15)))


def summarise(found):
    """Prints it; returns the median and the 95th percentile, in %."""
    plain, by_algorithm, by_both = sorted(abs(f[0]) for f in found), {}, {}
    median, p95 = percentile(plain, 0.5), percentile(plain, 0.95)
    for d, point in found:
        by_algorithm.setdefault(point[2], []).append(abs(d))
        by_both.setdefault("%s %s" % (point[2], point[1]), []).append(abs(d))
    print_row("all", plain)
    for rows in by_algorithm, by_both:
        print()
        for name, values in sorted(rows.items()):
            print_row(name, values)
    return median, p95


def topologies(args):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = os.environ.get("PEAL_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    files = args.topologies or (
        sorted(glob.glob(os.path.join(corpus, "nccl-topo", "*.xml"))) +
        sorted(glob.glob(os.path.join(root, "examples", "topologies", "*.xml"))) + list(MEMORY))
    part, parts = (int(x) for x in args.part.split("/"))
    return files[part - 1::parts]


def simulated(args):
    """(difference, point) of all that were asked for."""
    table = open(args.table, "w", encoding="utf-8") if args.table else None
    sizes = sorted(number(size) for size in args.sizes.split(","))
    for path in topologies(args):
        only = LARGE.get(os.path.basename(path), {MEMORY.get(path, args.algorithm): "1024G"})
        for algorithm, most in only.items():
            few = [size for size in sizes if size <= number(most)]
            if not few or args.algorithm not in (None, algorithm):
                continue
            for d, point, rest in points(args, path, args.collective, algorithm, few):
                yield d, point
                if table:
                    print("%+.4f" % d, *point, *rest, sep="\t", file=table, flush=True)


def joined(paths):
    for path in paths:
        with open(path, encoding="utf-8") as table:
            for line in table:
                fields = line.rstrip("\n").split("\t")
                yield float(fields[0]), tuple(fields[1:5])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("peal")
    parser.add_argument("-c", "--collective")
    parser.add_argument("-a", "--algorithm")
    parser.add_argument("--every", action="store_true")
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
        print("\nworst:")
    for d, point in sorted(found, key=lambda f: -abs(f[0]))[:args.worst]:
        print("  %+7.1f %%  %s %s %s %s" % (100 * d, os.path.basename(point[0]), *point[1:]))
        if not args.every:
            explain(args.peal, point)
    if median > args.median or p95 > args.p95:
        sys.exit("above %g %% (median) or %g %% (p95)" % (args.median, args.p95))


if __name__ == "__main__":
    main()
