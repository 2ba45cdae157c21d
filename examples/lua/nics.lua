-- SPDX-License-Identifier: Apache-2.0
-- How many NICs until the network stops binding? An allreduce over several hosts whose NICs are
-- taken one by one (their links carry nothing), planned and simulated at each number.
--
--   lua5.4 nics.lua [cluster.xml [bytes]]
local peal = require "peal"

local path = arg[1] or "examples/topologies/cluster-h100-2.xml"
local bytes = arg[2] or "256M"
local rates = { 50, 100, 200, 400, 800, 1600 } -- Gb/s of each NIC: as one to thirty-two of 50

print(("allreduce of %s on %s"):format(bytes, path))
print(("%9s  %-13s %10s %10s %8s  %s"):format("NIC Gb/s", "algorithm", "planned us", "simulated",
  "GB/s", "what binds"))
local free
for _, rate in ipairs(rates) do
  local fabric = peal.load(path, { net = rate })
  local table = peal.plan(fabric, { bytes = bytes })
  table:compile()
  local row, sim = table:rows()[1], table:simulate()
  print(("%9d  %-13s %10.1f %10.1f %8.1f  %s"):format(rate, row.algorithm, row.time_us, sim.time_us,
    row.algbw_gbs, row.binding))
  if not free and not row.binding:find("net") and not row.binding:find("mlx") then free = rate end
end
print(free and ("the network stops binding at " .. free .. " Gb/s a NIC")
  or "the network binds throughout")
