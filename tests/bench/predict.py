#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""predict.py PEAL MEASURED.tsv: how well fitted lines predict what they were not fitted on.

The error of a series is exp(mean |ln(predicted / measured)|) - 1. Held out: every second size is
fitted, the others are predicted, against log-log interpolation between the same fitted sizes. Moved:
one series is fitted, other numbers of nodes and other collectives are predicted from it. Exits with
1 where a target is missed."""
import csv
import json
import math
import subprocess
import sys

MIB = 1 << 20
MOVED = [
    ("p5-8xH100-EFA/allreduce/2n/nccl/a", "p5-8xH100-EFA/allreduce/4n/nccl/a"),
    ("p5-8xH100-EFA/allreduce/2n/nccl/a", "p5-8xH100-EFA/allreduce/16n/nccl/a"),
    ("DGX-A100-8/allreduce/1n/nccl/a", "DGX-A100-8/allgather/1n/nccl/a"),
    ("DGX-A100-8/allreduce/1n/nccl/a", "DGX-A100-8/alltoall/1n/nccl/a"),
]
TARGET_MOVED = 0.20


def fit(*options):
    command = [sys.argv[1], "fit", sys.argv[2], "--json", *options]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {s["series"]: s for s in json.loads(out)["series"]}


def loglog(seen, size):
    at = max(i for i in range(len(seen) - 1) if i == 0 or seen[i][0] <= size)
    (x0, y0), (x1, y1) = seen[at], seen[at + 1]
    part = math.log(size / x0) / math.log(x1 / x0)
    return math.exp(math.log(y0) + part * math.log(y1 / y0))


def error(offs):
    return math.exp(sum(offs) / len(offs)) - 1 if offs else 0


def held_out(worst):
    """Both predictors on the sizes held out; gives 1 when the fit is worse."""
    print(f"{'held out':38} {'sizes':>5} {'fit %':>7} {'log-log %':>9} {'parameters':>10} {'of points':>9}")
    total = {"fit": [], "log": [], "fit big": [], "log big": []}
    parameters = numbers = 0
    for name, series in fit("--hold-out").items():
        points = [(p["bytes"], p["time_us"], p["fitted_us"]) for p in series["points"]]
        seen = [(b, t) for b, t, _ in points[::2]]
        mine, other = [], []
        for size, time, guess in points[1::2]:
            mine.append(abs(math.log(guess / time)))
            other.append(abs(math.log(loglog(seen, size) / time)))
            worst.append((mine[-1], name, size, guess / time))
            if size >= MIB:
                total["fit big"].append(mine[-1])
                total["log big"].append(other[-1])
        total["fit"] += mine
        total["log"] += other
        parameters += series["parameters"]
        numbers += 2 * len(seen)
        print(f"{name:38} {len(mine):5} {100*error(mine):7.1f} {100*error(other):9.1f} "
              f"{series['parameters']:10} {2*len(seen):9}")
    for label, a, b in (("all sizes", "fit", "log"), ("1 MiB and up", "fit big", "log big")):
        print(f"{label:38} {len(total[a]):5} {100*error(total[a]):7.1f} {100*error(total[b]):9.1f}")
    print(f"parameters {parameters}, of the interpolation {numbers}")
    return (error(total["fit"]) > error(total["log"])) + (error(total["fit big"]) > error(total["log big"]))


def moved():
    missed = 0
    print(f"\n{'fitted on':36} {'predicted':36} {'sizes':>5} {'error %':>8} {'worst %':>8}  at")
    for source, target in MOVED:
        p = fit("--from", source)[target]["predicted"]
        late = p["error"] >= TARGET_MOVED or not p["points"]
        missed += late
        print(f"{source:36} {target:36} {p['points']:5} {100*p['error']:8.1f} "
              f"{100*p['worst_error']:+8.1f}  {p['worst_bytes']}{'  MISSED' if late else ''}")
    return missed


def main():
    worst = []
    with open(sys.argv[2], encoding="utf-8") as file:
        names = {row["series"] for row in csv.DictReader(file, delimiter="\t")}
    if not all(name in names for pair in MOVED for name in pair):
        sys.exit("predict.py: the table lacks series that are to be predicted")
    missed = held_out(worst)
    print("\nworst rows held out")
    for _, name, size, ratio in sorted(worst, reverse=True)[:8]:
        print(f"  {name:38} {size:12} {100*(ratio-1):+8.1f} %")
    missed += moved()
    sys.exit(1 if missed else 0)


main()
