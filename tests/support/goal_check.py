#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goal_check.py [--sent] FILE: a GOAL schedule is well formed, its messages pair up, and it ends.

The grammar is that of LogGOPSim's txt2bin, which reads text token by token (spaces and tabs
between tokens do not matter, except that a word ends where its letters end):

  file       num_ranks INT, then for each rank: rank INT { statements }
  statement  [LABEL :] operation NEWLINE, or LABEL (requires | irequires) LABEL NEWLINE
  operation  send INT b to INT [tag INT] [cpu INT] [nic INT]
             recv INT b from (INT | -1) [tag (INT | -1)] [cpu INT] [nic INT]
             calc INT [cpu INT]

LABEL is a letter and then letters, digits or _, and none of the words above. A label is defined
above where it is named, once in its rank. Sizes have 64 bits, ranks and tags 32, cpu and nic 8.
--sent prints how many bytes all ranks send.
"""
import re
import sys

TOKEN = re.compile(r"[ \t]*(?:(//[^\n]*|/\*.*?\*/)|(-1)|(\d+)|([a-zA-Z][a-zA-Z0-9_]*)|([:{}\n])"
                   r"|(\r\n)|(\Z))", re.S)
WORDS = {"rank", "num_ranks", "send", "recv", "calc", "requires", "irequires", "nic", "cpu", "tag",
         "to", "from"}
NEWLINE, END = "\n", ""


class Reader:
    def __init__(self, text):
        self.text, self.at, self.line = text, 0, 1
        self.kind, self.word = None, None
        self.step()

    def fail(self, wanted):
        sys.exit("goal_check: line %d: %r, where %s is expected" % (self.line, self.word, wanted))

    def step(self):
        if self.word == NEWLINE:
            self.line += 1
        while True:
            match = TOKEN.match(self.text, self.at)
            if not match:
                self.word = self.text[self.at:self.at + 1]
                self.fail("a token")
            self.at = match.end()
            if not match[1]:
                break
            self.line += match[1].count("\n")
        self.kind = ("any", "int", "ident", "sign", "sign", "end")[
            next(i for i in range(2, 8) if match[i] is not None) - 2]
        self.word = NEWLINE if match[6] else match[0].lstrip(" \t")

    def take(self, wanted):
        if self.word != wanted:
            self.fail(repr(wanted))
        self.step()

    def blank(self):
        while self.word == NEWLINE:
            self.step()

    def number(self, bits, wild=False):
        if self.kind == "any" and wild:
            self.step()
            return -1
        if self.kind != "int" or int(self.word) >= 1 << bits:
            self.fail("a number of %d bits" % bits)
        value = int(self.word)
        self.step()
        return value

    def label(self):
        if self.kind != "ident" or self.word in WORDS:
            self.fail("a label")
        word = self.word
        self.step()
        return word

    def size(self):
        # "16b": the number and the letter are tokens of their own
        value = self.number(64)
        self.take("b")
        return value

    def option(self, name, bits, wild=False):
        if self.word != name:
            return 0
        self.step()
        return self.number(bits, wild)

    def operation(self):
        kind = self.word
        if kind not in ("send", "recv", "calc"):
            self.fail("send, recv or calc")
        self.step()
        if kind == "calc":
            op = [kind, self.number(64), None, None, []]
            self.option("cpu", 8)
            return op
        size = self.size()
        self.take("to" if kind == "send" else "from")
        peer = self.number(32, kind == "recv")
        op = [kind, size, peer, self.option("tag", 32, kind == "recv"), []]
        self.option("cpu", 8)
        self.option("nic", 8)
        return op

    def statement(self, ops):
        if self.kind == "ident" and self.word not in WORDS:
            name = self.label()
            if self.word in ("requires", "irequires"):
                self.step()
                if self.word not in ops or name not in ops:
                    self.fail("a label defined above")
                ops[name][4].append(self.label())
                return
            self.take(":")
            if name in ops:
                sys.exit("goal_check: line %d: %s is there already" % (self.line, name))
        else:
            name = len(ops)
        ops[name] = self.operation()

    def rank(self, ranks):
        self.take("rank")
        number = self.number(32)
        if number in ranks:
            self.fail("a rank that is not there yet")
        ops = ranks[number] = {}
        self.take("{")
        self.blank()
        while self.word != "}":
            self.statement(ops)
            self.take(NEWLINE)
            self.blank()
        self.step()
        self.blank()

    def file(self):
        ranks = {}
        self.blank()
        self.take("num_ranks")
        count = self.number(32)
        self.blank()
        while self.word != END:
            self.rank(ranks)
        if sorted(ranks) != list(range(count)):
            sys.exit("goal_check: these are not %d ranks" % count)
        return ranks


def pair(ranks):
    sent, heard = {}, set()
    for rank, ops in ranks.items():
        for kind, size, peer, tag, _ in ops.values():
            assert kind == "calc" or peer in ranks, "rank %s does not exist" % peer
            if kind == "send":
                assert (rank, peer, tag) not in sent
                sent[rank, peer, tag] = size
    for rank, ops in ranks.items():
        for kind, size, peer, tag, _ in ops.values():
            if kind == "recv":
                assert sent.get((peer, rank, tag)) == size and (peer, rank, tag) not in heard
                heard.add((peer, rank, tag))
    assert len(heard) == len(sent)
    return sum(sent.values())


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
    with open(sys.argv[-1], encoding="ascii", newline="") as file:
        ranks = Reader(file.read()).file()
    sent = pair(ranks)
    run(ranks)
    if sys.argv[1] == "--sent":
        print(sent)


if __name__ == "__main__":
    main()
