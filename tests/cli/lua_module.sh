#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Lua module in a stock Lua: every call of it, errors, and the example.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
module=$(dirname "$PEAL")/lua
command -v lua5.4 >/dev/null && [ -e "$module/peal.so" ] || exit 77
nm -D "$module/peal.so" | grep -q __asan && exit 77 # lua5.4 itself is not built with it
export LUA_CPATH="$module/?.so"
cat >all.lua <<'L'
local peal = require "peal"
local base = arg[1]
local function fails(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok and tostring(err):find(pattern), tostring(err))
end
local fabric = peal.load(base .. "/examples/topologies/cluster-h100-2.xml")
local info = fabric:info()
assert(info.ranks == 16 and info.hosts == 2 and #fabric:links() == info.links)
assert(fabric:rank(9).host == 1 and fabric:path(0, 8).class == "net" and fabric:path(0, 1).direct)
local table = peal.plan(fabric, { bytes = { "64K", "1M" } })
local rows = table:rows()
assert(rows[1].min_bytes == 65536 and rows[#rows].max_bytes == 1 << 20 and rows[1].time_us > 0)
assert(#table:candidates(1) > 3)
fails("only a compiled table runs", table.run, table, {})
table:compile()
assert(#table:id() == 32)
local text, bytes = table:dump(), table:encode()
assert(text:find "^peal%-table 1" and bytes:find "^PEALPLAN")
assert(peal.decode(text):encode() == bytes and peal.decode(bytes):dump() == text)
local proof = table:verify()
assert(proof.ok and proof.ranks == 16 and #proof.findings == 0)
local bad = peal.decode((text:gsub("\n%s+wait r[^\n]*", "", 1)))
assert(not bad:verify().ok and #bad:verify().findings > 0)
local sim = table:simulate { row = 1 }
assert(sim.time_us > 0 and sim.links[1].busy_us > 0)
assert(peal.decode(bytes):simulate { fabric = fabric }.time_us == sim.time_us)
for _, collective in ipairs { "allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "alltoall" } do
  local host = peal.host(3)
  local t <close> = peal.plan(host, { collective = collective, bytes = { 8, "1M" } }):compile()
  local r = t:run { bytes = 12000, calls = 2 }
  assert(r.wrong == 0 and r.time_us > 0 and r.bytes == 12000, collective)
end
local script = assert(io.open(base .. "/examples/algorithms/ring.lua")):read "a"
local own = peal.plan(peal.host(4), { bytes = { 8, "64K" }, script = script }):compile()
assert(own:rows()[1].algorithm == "lua-ring" and own:run { bytes = "64K" }.wrong == 0)
assert(#own:bench { bytes = { 1024, "4K" }, calls = 2 } == 2)
local points = {}
for i = 10, 20 do points[#points + 1] = { 1 << i, 5 + (1 << i) / 25e3 } end
local line = peal.fit(points)
assert(math.abs(line.alpha_us - 5) < 0.1 and math.abs(line.beta_gbs - 25) < 0.5)
local step = peal.estimate(fabric, { model = "llama-3-70b", tp = 8, dp = 2 })
assert(step.ranks == 16 and step.serial_us > 0 and #step.axes > 0)
local slow = peal.load(base .. "/examples/topologies/cluster-h100-2.xml"):degrade("h0/gpu0>h0/nvs0", 0.5)
assert(slow)
fails("unknown collective 'sum'", peal.plan, fabric, { collective = "sum" })
fails("no option 'size'", peal.plan, fabric, { size = 8 })
fails("is not a size", peal.plan, fabric, { bytes = "8X" })
fails("peal.fabric expected", peal.plan, {}, {})
fails("nothere.xml", peal.load, "nothere.xml")
fails("at the end rank", peal.plan, peal.host(3), { script = [[return peal.algorithm { name = "x",
  collective = "allreduce", chunks = 1, schedule = function(s) s:reduce { chunk = 0, from = 0, to = 1 } end }]] })
-- sizes that are none, and options that are no texts
fails("more than 1 TiB", function()
  peal.plan(peal.host(4), { bytes = "64K" }):compile():run { bytes = 1 << 62 }
end)
fails("is not a size", peal.plan, fabric, { bytes = "999999999G" })
fails("'algorithm' is not a text", peal.plan, fabric, { algorithm = 5 })
fails("no number of segments", peal.fit, points, 1 << 32)
local given = setmetatable({ bytes = "1M" }, { __index = function(_, key) return key .. "s" end })
assert(#peal.plan(fabric, given):rows() > 0) -- what a metatable gives is not asked for
-- required again, it is the same module to what it has made
package.loaded.peal = nil
assert(require "peal".host(2):info().ranks == 2)
collectgarbage()
assert(table:verify().ok and fabric:info().ranks == 16)
print(peal.version)
L
lua5.4 all.lua "$PEAL_SOURCE" | grep -q '^0\.'
cd "$PEAL_SOURCE"
lua5.4 examples/lua/nics.lua examples/topologies/slingshot-4gpu.xml 1M >"$OLDPWD/out"
grep -q '^   4  ' "$OLDPWD/out" || { cat "$OLDPWD/out"; exit 1; }
