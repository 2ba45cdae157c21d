#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goal_check.py FILE: a GOAL schedule is well formed, its messages pair up, and it ends."""
import re
import sys

OPERATION = re.compile(r"(l\d+): (send|recv) (\d+)b (to|from) (\d+) tag (\d+)$")


def read(path):
    ranks, count, ops = {}, None, None
    for line in open(path, encoding="ascii"):
        line = line.strip()
        begin = re.match(r"rank (\d+) \{$", line)
        message = OPERATION.match(line)
        calc = re.match(r"(l\d+): calc (\d+)$", line)
        requires = re.match(r"(l\d+) requires (l\d+)$", line)
        if line.startswith("num_ranks "):
            count = int(line.split()[1])
        elif begin:
            ops = ranks[int(begin[1])] = {}
        elif message:
            assert message[1] not in ops, line
            assert (message[2] == "send") == (message[4] == "to"), line
            ops[message[1]] = [message[2], int(message[3]), int(message[5]), int(message[6]), []]
        elif calc:
            assert calc[1] not in ops, line
            ops[calc[1]] = ["calc", int(calc[2]), None, None, []]
        elif requires:
            assert requires[2] in ops, line
            ops[requires[1]][4].append(requires[2])
        else:
            assert line in ("", "}"), line
    assert sorted(ranks) == list(range(count))
    return ranks


def pair(ranks):
    sent, heard = {}, set()
    for rank, ops in ranks.items():
        for kind, size, peer, tag, _ in ops.values():
            if kind == "send":
                assert (rank, peer, tag) not in sent
                sent[rank, peer, tag] = size
    for rank, ops in ranks.items():
        for kind, size, peer, tag, _ in ops.values():
            if kind == "recv":
                assert sent.get((peer, rank, tag)) == size and (peer, rank, tag) not in heard
                heard.add((peer, rank, tag))
    assert len(heard) == len(sent)


def run(ranks):
    done, arrived, moved = set(), set(), True
    while moved:
        moved = False
        for rank, ops in ranks.items():
            for label, (kind, _, peer, tag, behind) in ops.items():
                if (rank, label) in done or any((rank, b) not in done for b in behind):
                    continue
                if kind == "recv" and (peer, rank, tag) not in arrived:
                    continue
                if kind == "send":
                    arrived.add((rank, peer, tag))
                done.add((rank, label))
                moved = True
    assert len(done) == sum(len(ops) for ops in ranks.values()), "it does not end"


def main():
    ranks = read(sys.argv[1])
    pair(ranks)
    run(ranks)


if __name__ == "__main__":
    main()
