#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the planner's choice loses to the best algorithm measured, and how far predictions are off.

regret.py PEAL [--ranks N,...] [--sizes LO:HI] [--factor X] [--rounds R] [--collective C,...]
          [--median] [--ranks-as threads|procs] [--registered] [--budget MS] [--fit]
          [--keep FILE] [--seconds S] [--json FILE] TOPOLOGY

Every algorithm that serves the request is measured, and so is the planner's own choice, one after
the other in each round, so that what else the machine does meets all of them alike. Of the rounds
of a size the least time counts (--median: the middle one): of `peal bench`, out of place, the best
of its bursts. TOPOLOGY is what `peal fit --measure --ranks N -o` wrote, a % in its name standing
for N (--fit: it is written first, N by N); "host:" stands for the constants that peal has without
one. Regret is the choice's time over the least of all.

Each size is measured for about --budget ms. --keep adds what is measured to FILE, and counts what
is in it: so rounds, numbers of ranks and collectives can be measured one at a time. With --seconds
no measurement is begun after so long; the same command goes on where that one stopped, and
--rounds 0 sums up what there is.

A virtual machine's cores may be near each other at one time and far apart at another. So a flag is
sent there and back before each measurement and behind it, and where its times fall apart into some
and others of more than half as long again, each of these states has rows of its own: only what was
measured in one state is compared, and what was measured while it changed is measured once more.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

ALIKE = 1.5  # what a flag takes in one state of the cores, at most over at least
TRIES = 3


def ask(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None


def flag_us(peal):
    """What a flag takes there and back between two cores."""
    paths = ask([peal, "fit", "--measure", "--sizes", "1:16", "--json"])
    return min(p["time_us"] for s in paths["series"][:2] for p in s["points"])


def states_of(flags):
    """A step of more than half between flags parts two states: bounds of each, the commonest first."""
    groups = []
    for us in sorted(flags):
        if not groups or us > ALIKE * groups[-1][-1]:
            groups.append([])
        groups[-1].append(us)
    return [(g[0], g[-1]) for g in sorted(groups, key=len, reverse=True)]


class Case:
    """A number of ranks and a collective."""
    def __init__(self, args, ranks, collective):
        self.args, self.ranks, self.collective = args, ranks, collective
        self.flags = []
        self.where = ["host:%d" % ranks] if args.topology == "host:" else \
            [args.topology.replace("%", str(ranks)), "-n", str(ranks)]
        self.base = [*self.where, "-c", collective]
        self.done = {}      # algorithm: rounds that it has
        self.planned = {}   # bytes: the choice's algorithm
        self.measured = {}  # algorithm ("" the choice): bytes: [(us, flag's us) of each round]
        procs = args.ranks_as == "procs" or not args.ranks_as and ranks <= os.cpu_count()
        self.private = [] if args.registered or not procs else ["--private"]

    def names(self):
        low = self.args.sizes.split(":")[0]
        table = ask([self.args.peal, "plan", *self.base, *self.private, "--bytes", self.args.sizes,
                     "--candidates", "--json"])
        if table is None:
            sys.exit("%s: cannot be planned for %d ranks (%s)" %
                     (self.args.topology, self.ranks, low))
        return sorted({c["algorithm"] for row in table["rows"] for c in row["candidates"]})

    def key(self):
        return [self.ranks, self.collective, self.args.ranks_as, self.args.registered]

    def take(self, name, flag, rows):
        self.flags.append(flag)
        self.done[name] = self.done.get(name, 0) + 1
        for size, us, algorithm in rows:
            self.measured.setdefault(name, {}).setdefault(size, []).append((us, flag))
            if not name:
                self.planned[size] = algorithm

    def bench(self, name):
        forced = ["-a", name] if name else []
        placed = ["--" + self.args.ranks_as] if self.args.ranks_as else []
        placed += ["--registered"] if self.args.registered else []
        sizes = self.sizes(forced)
        for _ in range(TRIES):
            flag, out, behind = self.once([*forced, *placed], sizes)
            if out is None or max(flag, behind) <= ALIKE * min(flag, behind):
                break
        rows = [(row["bytes"], row["time_best_us"], row["algorithm"]) for row in out["rows"]] \
            if out else []
        self.take(name, flag, rows)
        if self.args.keep:
            with open(self.args.keep, "a", encoding="ascii") as file:
                print(json.dumps([self.key(), name, flag, rows]), file=file)

    def sizes(self, forced):
        """As far as the algorithm serves them."""
        table = ask([self.args.peal, "plan", *self.base, *self.private, *forced, "--bytes",
                     self.args.sizes, "--json"])
        low = self.args.sizes.split(":")[0]
        return "%s:%d" % (low, table["rows"][-1]["max_bytes"]) if table else None

    def once(self, how, sizes):
        """With what a flag takes, before and behind."""
        near = self.ranks <= os.cpu_count()
        flag = flag_us(self.args.peal) if near else 0
        out = ask([self.args.peal, "bench", *self.base, *how, "--no-check", "--placement",
                   "out", "--budget", str(self.args.budget), "--sizes", sizes, "--factor",
                   str(self.args.factor), "--json"]) if sizes else None
        return flag, out, flag_us(self.args.peal) if near else 0

    def predict(self, name, size):
        forced = ["-a", name] if name else []
        table = ask([self.args.peal, "plan", *self.base, *self.private, *forced, "--bytes",
                     str(size), "--json"])
        return table["rows"][0] if table else None

    def time(self, name, size, state):
        rounds = [us for us, flag in self.measured.get(name, {}).get(size, [])
                  if state[0] <= flag <= state[1]]
        if not rounds:
            return None
        return statistics.median(rounds) if self.args.median else min(rounds)


def load():
    with open("/proc/loadavg", encoding="ascii") as file:
        return file.read().split()[0]


def fit(args, ranks):
    if not args.fit:
        return
    path = args.topology.replace("%", str(ranks))
    placed = ["--" + args.ranks_as] if args.ranks_as else []
    if subprocess.run([args.peal, "fit", "--measure", "--ranks", str(ranks), *placed, "--sizes",
                       "4:64M", "-o", path], stdout=subprocess.DEVNULL, check=False).returncode:
        sys.exit("%s: could not be measured" % path)


def kept(args, case):
    """What FILE has of the case."""
    if not args.keep or not os.path.exists(args.keep):
        return
    with open(args.keep, encoding="ascii") as file:
        for key, name, flag, rows in map(json.loads, file):
            if key == case.key():
                case.take(name, flag, rows)


def measure(args, ranks, collective, until):
    """Each round begins with another algorithm."""
    case = Case(args, ranks, collective)
    kept(args, case)
    names = case.names()
    for number in range(args.rounds):
        turn = number % (len(names) + 1)
        for name in (["", *names] * 2)[turn:turn + len(names) + 1]:
            if case.done.get(name, 0) <= number and time.monotonic() < until:
                case.bench(name)
    return case, names


def of_size(case, names, size, state):
    """None: in this state the choice, or one of the others, has not been measured."""
    choice = case.planned[size]
    times = {n: t for n in names if (t := case.time(n, size, state)) is not None}
    # The choice was measured twice: as the choice, and by its name.
    own = min(case.time("", size, state) or math.inf, times.get(choice, math.inf))
    if own == math.inf or any(n not in times for n in names if size in case.measured.get(n, {})):
        return None
    times[choice] = own
    best = min(times, key=times.get)
    row = {"ranks": case.ranks, "collective": case.collective, "flag_us": state[0], "bytes": size, "choice": choice, "choice_us": own,
           "best": best, "best_us": times[best], "regret": own / times[best], "times": times,
           "predicted": {}}
    for name in times:
        planned = case.predict(name, size)
        if planned:
            row["predicted"][name] = planned["time_us"]
    return row


def size_text(size):
    for unit in ("", "K", "M"):
        if size < 1024 or unit == "M":
            return "%d%s" % (size, unit)
        size //= 1024
    return ""


def flag_text(us):
    return "%.3f" % us if us else "-"


def geometric(values):
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else math.nan


def show(rows):
    print("%5s %-14s %7s %6s  %-10s %10s %10s %6s  %-10s %10s %7s" %
          ("ranks", "collective", "flag us", "bytes", "choice", "measured", "predicted", "off", "best", "measured",
           "regret"))
    for row in rows:
        predicted = row["predicted"].get(row["choice"], math.nan)
        print("%5d %-14s %7s %6s  %-10s %10.2f %10.2f %+5.0f%%  %-10s %10.2f %7.3f" %
              (row["ranks"], row["collective"], flag_text(row["flag_us"]), size_text(row["bytes"]), row["choice"],
               row["choice_us"], predicted,
               100 * (predicted / row["choice_us"] - 1), row["best"], row["best_us"],
               row["regret"]))


def off(row, names):
    return [abs(row["predicted"][n] / row["times"][n] - 1) for n in names if n in row["predicted"]]


def summary(rows):
    keys = sorted({(row["ranks"], row["collective"], row["flag_us"]) for row in rows})
    for key in [*keys, None] if len(keys) > 1 else keys:
        some = [row for row in rows
                if not key or key == (row["ranks"], row["collective"], row["flag_us"])]
        chosen = [x for row in some for x in off(row, [row["choice"]])]
        every = [x for row in some for x in off(row, row["times"])]
        where = "%d ranks, %s%s" % (key[0], key[1], ", flag %s us" % flag_text(key[2])
                                    if key[2] else "") if key else "all"
        print("%-40s regret %.3f (worst %.2f); prediction off by %.0f %% (median) of the choice, "
              "%.0f %% of all algorithms" %
              (where, geometric([r["regret"] for r in some]), max(r["regret"] for r in some),
               100 * statistics.median(chosen), 100 * statistics.median(every)))


def arguments():
    parser = argparse.ArgumentParser(description="regret and prediction errors, measured")
    parser.add_argument("peal")
    parser.add_argument("topology")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default="8:64M")
    parser.add_argument("--factor", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--collective", default="allreduce")
    parser.add_argument("--median", action="store_true")
    parser.add_argument("--ranks-as", choices=["threads", "procs"])
    parser.add_argument("--registered", action="store_true")
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--json")
    args = parser.parse_args()
    if not re.fullmatch(r"\d+(,\d+)*", args.ranks) or not os.access(args.peal, os.X_OK):
        parser.error("--ranks is a list of numbers, PEAL a program")
    return args


def main():
    args = arguments()
    rows, before = [], load()
    until = time.monotonic() + args.seconds
    for ranks in map(int, args.ranks.split(",")):
        fit(args, ranks)
        for collective in args.collective.split(","):
            case, names = measure(args, ranks, collective, until)
            rows += [row for state in states_of(case.flags) for size in sorted(case.planned)
                     if (row := of_size(case, names, size, state))]
    if not rows:
        sys.exit("nothing has been measured of all algorithms yet")
    show(rows)
    print("load average %s before, %s after, %d cores" % (before, load(), os.cpu_count()))
    summary(rows)
    if args.json:
        with open(args.json, "w", encoding="ascii") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
