#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: lua
# Policies on the command line: what they may ask for, what they are refused, and what becomes of
# those that fail.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
dgx=$topologies/dgx-h100.xml

policy() { # policy FILE: from standard input
    { echo '-- SPDX-License-Identifier: Apache-2.0'; cat; } >"$1"
}

# ---- what is impossible is refused, with the reason
refused() { # refused TOPO ASK REASON
    policy p.lua <<<"return {choose = function() return $2 end}"
    expect 3 "$PEAL" plan "$1" --policy p.lua
    expect_err "p.lua:2: error: .*$3"
}
refused "$dgx" '{reduce_engine = "ce"}' 'ce cannot reduce'
refused "$topologies/dgx-a100.xml" '{engine = {nvlink = "tma"}}' 'tma needs compute capability 9.0; these are sm_80'
refused "$dgx" '{engine = {nvlink = "rdma"}}' 'engine rdma cannot move over nvlink'
refused "$dgx" '{zero_sm = true}' 'allreduce reduces, which copy engines and NICs cannot'
refused "$dgx" '{algorithm = "rong"}' 'unknown algorithm rong'
refused "$dgx" '{channels = 99}' '99 channels; at most 32'
refused "$dgx" '{root = 8}' 'there is no rank 8: ranks are 0 to 7'
refused "$dgx" '{colour = 1}' "'colour' cannot be asked for"
refused "$dgx" '{algorithm = "ring", max_sms = 1, channels = 8}' 'SMs are too few'
refused "$dgx" '{inner = "ring"}' 'no algorithm serves|nothing that is asked for'
policy p.lua <<<'return {choose = function(c, req, fabric) return fabric:rank(8) end}'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err 'p.lua:2: error: there is no rank 8: ranks are 0 to 7'
policy p.lua <<<'return {choose = function(c) return {algorithm = "oneshot"} end}'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err 'nothing that is asked for serves a message of'
policy p.lua <<<'return {check = function() return false, "not today" end}'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err 'vetoes every schedule for [0-9]+ bytes: not today'

# ---- nothing that is handed in can be changed
for attempt in 'c[1].time_us = 0' 'req.bytes = 1' 'f.ranks[1] = 2' 'f.links[1].beta_gbs = 1e9' \
    'peal.KiB = 1' 'f.nothing = 1'; do
    policy p.lua <<<"return {choose = function(c, req, f) $attempt end}"
    expect 3 "$PEAL" plan "$dgx" --policy p.lua
    expect_err 'p.lua:2: error: .* cannot be changed'
done
policy p.lua <<<'return {choose = function(c, req, f) return c[1].tiem_us end}'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err "a peal.Candidate has no 'tiem_us'"

# ---- files that are no policies
policy p.lua <<<'return {chose = 1}'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err "a policy has no 'chose'"
policy p.lua <<<'return 1'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err 'returns a table of functions, not a number'
expect 3 "$PEAL" plan "$dgx" --policy missing.lua

# ---- what a script says gives the terminal no orders
policy p.lua <<<'print("a\tb\27[31m\194\155c\nd\195\164\155") error("no\27[0m\nmore\127", 0)'
expect 3 "$PEAL" plan "$dgx" --policy p.lua
LC_ALL=C grep -q $'[\e\x7f\x9b]' err && die 'control characters of a script reach the terminal'
grep -qxF $'a\tb\\x1b[31m\\xc2\\x9bc' err || die 'a printed line is not as it was, with \x1b shown'
grep -qxF 'dä\x9b' err || die 'the second line is not shown'
expect_err 'error: no\\x1b\[0m\\x0amore\\x7f'

# ---- an error: where, by way of what; and going on without
policy p.lua <<'LUA'
local function deep(x)
    return x.y.z
end
return {
    cost = function(candidate)
        local factor = deep(candidate.sms)
        return factor
    end,
}
LUA
expect 3 "$PEAL" plan "$dgx" --policy p.lua
expect_err "^p.lua:3: error: attempt to index a number value \(local 'x'\); at p.lua:3 in deep, p.lua:7 in "
[ ! -s out ] || die "output in spite of an error"
expect 0 "$PEAL" plan "$dgx"
cp out plain
expect 0 "$PEAL" plan "$dgx" --policy p.lua --policy-fallback
expect_err 'warning: the policy is left out: p.lua:3: attempt to index'
expect_same out plain

# ---- hostile ones: an error of their own, and the next plan right
for script in endless_pcall pattern_exponential memory_caught; do
    expect 3 "$PEAL" plan "$dgx" --policy "$PEAL_SOURCE/tests/hostile/$script.lua"
    expect_err "$script.lua:[0-9]+: error: (the script used up its budget|the script needs more)"
done
policy p.lua <<<'return {cost = function() while true do end end}'
expect 0 "$PEAL" plan "$dgx" --policy p.lua --policy-fallback
expect_err 'used up its budget of 10000000 units; at p.lua:2 in'
expect_same out plain

# ---- several refine each other: the second sees what the first one chose
policy a.lua <<<'return {choose = function() return {algorithm = "ring"} end}'
policy b.lua <<'LUA'
return {
    choose = function(candidates, req)
        assert(candidates.default.algorithm == "ring")
        if req.bytes > peal.GiB then
            return {algorithm = "tree"}
        end
    end,
}
LUA
expect 0 "$PEAL" plan "$dgx" --policy a.lua --policy b.lua --json
expect_json '[(r["algorithm"], r["max_bytes"] > 2**30) for r in j["rows"]] == [("ring", False), ("tree", True)] or all((r["algorithm"] == "tree") == (r["min_bytes"] > 2**30) for r in j["rows"])'
policy a.lua <<<'return {cost = function(c, req, f, us) return c.algorithm == "ring" and 7 or nil end}'
policy b.lua <<<'return {cost = function(c, req, f, us) if us == 7 then return 0 end end}'
expect 0 "$PEAL" plan "$dgx" --policy a.lua --policy b.lua --json
expect_json '{r["algorithm"] for r in j["rows"]} == {"ring"}'

# ---- the GPU drives the NIC where messages are small
policy posted.lua <<'LUA'
return {choose = function(_, req)
    return {algorithm = "direct", engine = {net = req.bytes <= 65536 and "ibgda" or "rdma"}}
end}
LUA
expect 0 "$PEAL" plan "$topologies/cluster-h100-16.xml" --group 0,8,16,24 -c alltoall -b 4K:1M \
    --policy posted.lua --json
expect_json 'j["rows"][0]["engines"]["net"] == "ibgda"'
expect_json 'j["rows"][-1]["engines"]["net"] == "rdma"'

# ---- engine by class, channels, and what is predicted of them
policy p.lua <<<'return {choose = function() return {algorithm = "ring", channels = 4, engine = {nvlink = "tma"}} end}'
expect 0 "$PEAL" compile "$dgx" --policy p.lua -o tma.peal
expect 0 "$PEAL" plan tma.peal --json
expect_json 'all("tma" in r["engines"]["nvlink"] and r["channels"] == 4 for r in j["rows"])'
expect 0 "$PEAL" run tma.peal -b 1M --check

# ---- a first policy, annotations, and the console
expect 0 "$PEAL" policy new mine
expect 0 "$PEAL" policy check mine.lua "$dgx"
expect_out 'ranges of sizes are changed'
expect 2 "$PEAL" policy new mine
expect_err 'there already'
expect 0 "$PEAL" policy meta
expect_same out "$PEAL_SOURCE/lua/meta/peal.d.lua"
expect 0 "$PEAL" policy check mine.lua "$dgx" --json
expect_json 'j["schema"] == "peal.policy/1" and len(j["comparisons"][0]["ranges"]) > 3'
expect 2 "$PEAL" policy check mine.lua
expect 2 "$PEAL" policy chekc mine.lua "$dgx"

printf 'fabric.nranks\nfor _, r in ipairs(fabric.ranks) do\n  if r.rank == 3 then print(r.busid, r.numa) end\nend\nfabric:path(0, 1).class\n' >in
expect 0 "$PEAL" lua "$dgx" <in
expect_out '^8$'
expect_out '^nvlink$'
[ "$(wc -l <out)" = 3 ] || die "not three lines"
printf 'nothing.here\nx = 5\nwhile true do end\nx\n' >in
expect 3 "$PEAL" lua "$dgx" <in
expect_out '^5$'
expect_err 'console:1: error: attempt to index a nil value'
expect_err 'used up its budget'

# ---- wherever plans are made
policy ring.lua <<<'return {choose = function() return {algorithm = "ring", channels = 1} end}'
expect 0 "$PEAL" estimate "$dgx" --model llama-3-8b --tp 8 --policy ring.lua
expect_out '^tp +allreduce .* ring '
expect 0 "$PEAL" report "$dgx" -c allreduce -b 8:1M --policy ring.lua -o page.html
expect 0 "$PEAL" bench host:2 -s 1K:4K --iters 1 -o measured.txt
expect 0 "$PEAL" compare host:2 measured.txt --policy ring.lua
expect_out '^ *1K .* ring( |$)'
policy bad.lua <<<'return {choose = function() error("no") end}'
expect 3 "$PEAL" estimate "$dgx" --model llama-3-8b --tp 8 --policy bad.lua
expect 0 "$PEAL" estimate "$dgx" --model llama-3-8b --tp 8 --policy bad.lua --policy-fallback
expect_err 'the policy is left out: bad.lua:2: '
