#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where an allreduce on one host passes from one step to two, beside what serving engines set.

crossovers.py PEAL [TOPOLOGY.xml]: for 2, 4 and 8 ranks of the topology (default: one DGX H100),
and of the same host with switches that multicast, the largest message that is chosen one step (every
rank gets all inputs: oneshot, pull in one step, doubling of two ranks) and what is chosen beyond, up
to where rings begin; the thresholds of engines (in KiB, SM90) beside it.
"""
import json
import os
import subprocess
import sys
import tempfile

# The largest message that is sent in one step, by ranks. What has no limit is "all".
ENGINES = [
    ("vLLM custom_all_reduce", {2: "all", 4: "512", 8: "256"}),
    ("SGLang v2, CUDA graph", {2: "16384", 4: "384", 8: "128"}),
    ("TensorRT-LLM, bf16", {2: "32768", 4: "2048", 8: "512"}),
    ("FlashInfer fusion", {2: "32768", 4: "2048", 8: "1024"}),
]


def rows_of(peal, topology, ranks):
    done = subprocess.run([peal, "plan", topology, "-n", str(ranks), "--bytes", "1K:1G", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["rows"]


def one_step(row, ranks):
    return row["algorithm"] == "oneshot" or (row["algorithm"] == "doubling" and ranks == 2)


def ranges(rows, ranks):
    """[(name, last byte)] of neighbouring rows that are alike."""
    merged = []
    for row in rows:
        name = "one step" if one_step(row, ranks) else row["algorithm"]
        if merged and merged[-1][0] == name:
            merged.pop()
        merged.append((name, row["max_bytes"]))
    return merged


def kib(count):
    return "%.3g" % (count / 1024) if count < 10 << 20 else "%d" % (count >> 10)


def show(name, peal, topology):
    for ranks in (2, 4, 8):
        text = ", ".join("%s to %s" % (what, kib(last)) for what, last in
                         ranges(rows_of(peal, topology, ranks), ranks)[:-1])
        last = ranges(rows_of(peal, topology, ranks), ranks)[-1][0]
        print("%-26s %d ranks: %s, %s beyond" % (name, ranks, text, last))


def main():
    peal = sys.argv[1]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    host = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else
                           os.path.join(root, "examples", "topologies", "dgx-h100.xml"))
    print("KiB")
    show("peal", peal, host)
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as text:
        text.write('<peal version="1"><host topology="%s" multicast="yes"/></peal>' % host)
        text.flush()
        show("peal, multicast", peal, text.name)
    for name, limit in ENGINES:
        print("%-26s one step up to %s with 2 ranks, %s with 4, %s with 8" %
              (name, limit[2], limit[4], limit[8]))


if __name__ == "__main__":
    main()
