#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where an allreduce on one host passes from one step to two, beside what serving engines set.

crossovers.py PEAL [TOPOLOGY.xml]: for 2, 4 and 8 ranks of the topology (default: one DGX H100), of
the same host with switches that multicast, and with slower start-ups, up to which size one step is
chosen (every rank gets all inputs: oneshot, or doubling of two ranks) and what is beyond; the
thresholds of engines (SM90) beside it.
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
    return "%.3g" % (count / 1024) if count < 1000 << 10 else "%d" % (count >> 10)


def show(name, peal, host, host_options="", more=""):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as text:
        text.write('<peal version="1"><host topology="%s"%s/>%s</peal>' %
                   (host, host_options, more))
        text.flush()
        for ranks in (2, 4, 8):
            merged = ranges(rows_of(peal, text.name, ranks), ranks)
            until = ", ".join("%s to %s" % (what, kib(last)) for what, last in merged[:-1])
            print("%-26s %d ranks: %s, %s beyond" % (name, ranks, until, merged[-1][0]))


def main():
    peal = sys.argv[1]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    host = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else
                           os.path.join(root, "examples", "topologies", "dgx-h100.xml"))
    print("KiB")
    show("peal", peal, host)
    show("peal, multicast", peal, host, ' multicast="yes"')
    show("peal, 3 us a start-up", peal, host, more='<cost link="nvlink" alpha-us="3"/>')
    for name, limit in ENGINES:
        print("%-26s one step up to %s with 2 ranks, %s with 4, %s with 8" %
              (name, limit[2], limit[4], limit[8]))


if __name__ == "__main__":
    main()
