#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal report: one page, whole, that needs nothing from elsewhere.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"

page() { # page TOPO OPTION...: the page, in out; it is itself and the same again
    expect 0 "$PEAL" report "$@"
    mv out once
    expect 0 "$PEAL" report "$@"
    expect_same once out
    [ "$(head -c 15 out)" = "<!DOCTYPE html>" ] || die "no page"
    [ "$(tail -n 1 out)" = "</body></html>" ] || die "the page has no end"
    if grep -Eo '(src|href|url\()[^>]{0,40}' out; then die "the page wants something else"; fi
    if sed 's|http://www.w3.org/2000/svg||g' out | grep -q '://'; then die "an address"; fi
    python3 - <<'PYTHON' || die "the page is not well formed"
from html.parser import HTMLParser
class Check(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        pass
    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())
check = Check()
check.feed(open("out", encoding="utf-8").read())
assert not check.open, check.open
PYTHON
}

page "$topologies/dgx-h100.xml" -c allreduce,alltoall --at 64K
expect_out '<h2 id="fabric">The machine</h2>'
expect_out '>nvs0<'
expect_out '<h3 id="alltoall">alltoall, 8 ranks</h3>'
expect_out 'allreduce of 64K by 8 ranks'
expect_out '<h3>Critical path</h3>'

page "$topologies/cluster-h100-2.xml" -c allreduce -b 1K:1M
expect_out '<h2 id="network">'
expect_out '>rail7<'

# Every board with each of the six others it is joined to, once: 16 of 28 pairs.
page "$topologies/dgx1-v100.xml" -c broadcast -b 1M
[ "$(grep -c '<title>gpu[0-7] - gpu[0-7], ' out)" = 16 ] || die "not the 16 pairs that are joined"

# No two algorithms have one colour.
[ "$(grep -oE -- '--s[0-9]+:' out | sort -u | wc -l)" -ge \
    "$(grep -c '^ALGORITHM(' "$PEAL_SOURCE/compiler/algorithms.def")" ] || die "colours are used twice"

page host:3 -c allreduce -b 8:64K --at 4K
expect_out '>rank2<'
page "$topologies/dgx-h100.xml" -c allreduce -b 1M --model llama-3-70b --tp 4
expect_out '<h2 id="estimate">'

# What a file says is text.
sed 's/count="2"/count="2" name="\&lt;script>\&amp;x"/' "$topologies/cluster-h100-2.xml" >odd.xml
cp "$topologies/dgx-h100.xml" .
if grep -q script odd.xml; then
    sed -i 's/name="dgx-h100"//; s/<peal version="1" name="[^"]*"/<peal version="1" name="\&lt;b>"/' odd.xml
    page odd.xml -c allreduce -b 1M
    expect_out '<h1>&lt;b&gt;</h1>'
fi

expect 2 "$PEAL" report
expect 2 "$PEAL" report "$topologies/dgx-h100.xml" --at 0
expect 2 "$PEAL" report "$topologies/dgx-h100.xml" --json
expect 3 "$PEAL" report missing.xml -o page.html
[ ! -e page.html ] || die "half a page"
expect 2 "$PEAL" report "$topologies/dgx-h100.xml" -a rign -o page.html
[ ! -e page.html ] || die "half a page"

# What lint finds is there, the worst first.
page "$topologies/cluster-h100-2.xml" -c allreduce -b 1M --model llama-3-70b --tp 16
expect_out 'error</b> tp-crosses <code>--tp</code>: tp 16, allreduce'

# ---- the same pictures alone
svg() { # svg FILE: well-formed XML of one picture, with the colours of what it shows, from nowhere
    python3 - "$1" <<'PYTHON' || die "$1: no picture"
import re, sys
import xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
ns = "{http://www.w3.org/2000/svg}"
style = root.find(ns + "style").text
used = {v for e in root.iter() for v in re.findall(r"var\((--[a-z0-9]+)\)", e.get("style", ""))}
assert root.tag == ns + "svg" and root.find(ns + "svg") is not None
assert used and all(v + ":" in style for v in used), used
tall = sum(float(s.get("height")) for s in root.findall(ns + "svg"))
assert tall <= float(root.get("height")), (tall, root.get("height"))
assert "://" not in open(sys.argv[1]).read().replace("http://www.w3.org/2000/svg", "")
PYTHON
}
expect 0 "$PEAL" topo "$topologies/cluster-h100-2.xml" --svg topo.svg
svg topo.svg
grep -q '>mlx5_0<' topo.svg || die "no NIC is drawn"
grep -q '>rail7<' topo.svg || die "no network is drawn"
expect 0 "$PEAL" plan "$topologies/dgx-h100.xml" -c allreduce,alltoall -b 1K:1M --svg plan.svg
svg plan.svg
[ "$(grep -c '^<text[^>]*>\(allreduce\|alltoall\), 8 ranks<' plan.svg)" = 2 ] || die "not both collectives"
grep -q '<text[^>]*>lower bound<' plan.svg || die "no colour is named"
expect 2 "$PEAL" topo detect --svg x.svg

# A plan of many ranks is drawn to its end: what the time is due to reaches it.
expect 0 "$PEAL" report "$topologies/cluster-h100-16.xml" -c allreduce -b 1M
grep -oE '<rect class="(move|transfer)" x="[0-9.]+" y="[0-9.]+" width="[0-9.]+"' out |
    awk -F'"' '$4 + $8 > end {end = $4 + $8} END {exit end > 950 ? 0 : 1}' ||
    die "the timeline stops before the end"
