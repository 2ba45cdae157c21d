#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --algorithm F.lua: planned, compiled, proven, simulated and run like a built-in one; and what is
# said about a wrong one.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
strings -a "$(dirname "$PEAL")"/libpeal.so 2>/dev/null | grep -q "this peal was built without Lua" && exit 77
shipped=$PEAL_SOURCE/examples/algorithms
machines=$PEAL_SOURCE/examples/topologies

for name in ring all-pairs two-level; do
    "$PEAL" plan "$machines/cluster-h100-2.xml" -a "$shipped/$name.lua" -b 1M:1M >out
    grep -q "lua-$name " out || { cat out; exit 1; }
    "$PEAL" run host:4 -n 2,3,4 -a "$shipped/$name.lua" -b 1003,65536 -d float32,int8 --check >out
    grep -q "lua-$name\|all right\|0 wrong" out || { cat out; exit 1; }
done
"$PEAL" compile "$machines/dgx-h100.xml" -n 4 -a "$shipped/ring.lua" -b 64K:1M -o ring.plan >/dev/null
"$PEAL" compile "$machines/dgx-h100.xml" -n 4 -a "$shipped/ring.lua" -b 64K:1M -o again.plan >/dev/null
cmp ring.plan again.plan
"$PEAL" verify ring.plan >/dev/null
"$PEAL" verify "$machines/cluster-h100-2.xml" -a "$shipped/two-level.lua" -b 1M:1M >/dev/null
"$PEAL" sim "$machines/cluster-h100-2.xml" -a "$shipped/two-level.lua" -b 1M | grep -q lua-two-level
"$PEAL" bench host:2 -a "$shipped/all-pairs.lua" -s 1K:1K --iters 1 | grep -q lua-all-pairs

# a collective of its own
"$PEAL" compile "$machines/dgx-h100.xml" -n 5 -c custom -a "$shipped/halo.lua" -b 1K:1M -o halo.plan >/dev/null
"$PEAL" dump halo.plan >halo.txt
grep -q "block r0 r1 r2 -> r1" halo.txt
"$PEAL" asm halo.txt -o same.plan
cmp halo.plan same.plan
"$PEAL" verify halo.plan >/dev/null
# run against its postcondition: of the script, of the file, in processes
"$PEAL" run host:4 -n 1,2,3,4 -c custom -a "$shipped/halo.lua" -b 0,8,1003,65536 -d all --op all \
    --check >out
grep -q "all right" out || { cat out; exit 1; }
expect 0 "$PEAL" run halo.plan --check --procs --json -b 64K
expect_json 'j["collective"] == "custom" and j["wrong"] == 0 and j["checked"]'
expect 0 "$PEAL" bench host:3 -c custom -a "$shipped/halo.lua" -s 8:4K --factor 8 --iters 2
expect_out '# Out of bounds values : 0 OK'
expect 2 "$PEAL" run host:3 -c custom -a "$shipped/halo.lua" --op avg
expect_err 'no average'
expect 2 "$PEAL" run host:3 -c custom
expect_err "a script's own"

# wrong ones: status, file and line, rank and chunk
wrong() { # status, text, sed script, file
    sed "$3" "$shipped/$4" >wrong.lua
    cmp -s wrong.lua "$shipped/$4" && { echo "nothing changed: $3"; exit 1; }
    code=0
    "$PEAL" plan "$machines/dgx-h100.xml" -n 4 -a wrong.lua -b 1M:1M >out 2>err || code=$?
    if [ "$code" != "$1" ] || ! grep -q "$2" err; then
        echo "$code, not $1: $2"
        cat err
        exit 1
    fi
}
wrong 1 'wrong.lua:35: error: at the end rank . lacks the input of rank . in chunk' 's/n - 2 do -- chunk/n - 3 do -- chunk/' ring.lua
wrong 3 "wrong.lua:30: error: there is no 'too' here" '30s/to =/too =/' ring.lua
wrong 2 'wrong.lua:15: error: there is no rank 4: the ranks are 0 to 3' 's/to = others(r, n)/to = n/' all-pairs.lua
wrong 2 'wrong.lua:14: error: there is no chunk 4: the chunks are 0 to 3' '14s/chunk = r/chunk = n/' all-pairs.lua
wrong 1 'wrong.lua:.*: error: the input of rank . would be in chunk' '15s/copy/reduce/;15s/from = r, to = others(r, n)/from = others(r, n), to = r/' all-pairs.lua
wrong 3 'used up its budget' 's/^return/while true do end return/' ring.lua
wrong 3 "wrong.lua:.*attempt to" '14s/others/other/' all-pairs.lua
# a table that was emptied is walked at its size
wrong 3 'used up its budget' 's/^return/local t = {} for i = 1, 65536 do t[i] = i end for i = 1, 65536 do t[i] = nil end\nreturn/;s/^\( *schedule = function(s,.*\)$/\1 for i = 1, 3000 do pcall(s.copy, s, t) end/' ring.lua
code=0
"$PEAL" plan "$machines/dgx-h100.xml" -c allgather -a "$shipped/ring.lua" 2>err || code=$?
[ "$code" = 3 ] && grep -q 'does not serve allgather' err

# wherever plans are made
expect 0 "$PEAL" estimate "$machines/cluster-h100-2.xml" --model llama-3-8b --tp 8 --dp 2 -a "$shipped/ring.lua"
expect_out '^tp +allreduce .* lua-ring'
expect_out '^dp +allreduce .* lua-ring'
expect 0 "$PEAL" report "$machines/dgx-h100.xml" -c allreduce -b 8:1M -a "$shipped/ring.lua" -o page.html
grep -q lua-ring page.html
expect 0 "$PEAL" bench host:2 -s 1K:4K --iters 1 -o measured.txt
expect 0 "$PEAL" compare host:2 measured.txt -a "$shipped/ring.lua"
expect_out '^ *1K .* lua-ring( |$)'
