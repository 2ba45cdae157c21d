-- SPDX-License-Identifier: Apache-2.0
-- How many NICs until the network stops binding? Two hosts like the given one, with their first
-- 1, 2, 3 ... NICs only; an allreduce among all ranks is planned, and simulated, for each.
--
--   lua5.4 nics.lua [host.xml [bytes]]
local peal = require "peal"

local path = arg[1] or "examples/topologies/dgx-h100.xml"
local bytes = arg[2] or "32M"

local function read(name)
  local file <close> = assert(io.open(name))
  return file:read "a"
end

local function write(name, text)
  local file <close> = assert(io.open(name, "w"))
  file:write(text)
end

-- The host with its first NICs: the others are cut out of the text.
local function with_nics(text, count)
  local seen = 0
  return (text:gsub('<pci [^>]*class="0x02[^>]*>%s*<nic>.-</nic>%s*</pci>', function(nic)
    seen = seen + 1
    return seen <= count and nic or ""
  end))
end

local text = read(path)
local _, most = text:gsub("<nic>", "")
local host = os.tmpname()
local cluster = ('<peal version="1" name="sweep"><host name="a" count="2" topology="%s"/>' ..
  '<network kind="leaf-spine"/></peal>'):format(host:match "[^/]+$")

print(("allreduce of %s by two hosts like %s"):format(bytes, path:match "[^/]+$"))
print(("%4s  %-13s %11s %12s %9s  %s"):format("NICs", "algorithm", "planned us", "simulated us",
  "GB/s", "gain"))
local last, enough
for nics = 1, most do
  write(host, with_nics(text, nics))
  local fabric = peal.parse(cluster, host:match "^(.*)/", "sweep")
  local table = peal.plan(fabric, { bytes = bytes }):compile()
  local row, sim = table:rows()[1], table:simulate()
  local gain = last and last / sim.time_us - 1 or 0
  print(("%4d  %-13s %11.1f %12.1f %9.1f  %+.0f %%"):format(nics, row.algorithm, row.time_us,
    sim.time_us, row.algbw_gbs, 100 * gain))
  if last and gain < 0.05 and not enough then enough = nics - 1 end
  if gain >= 0.05 then enough = nil end
  last = sim.time_us
end
os.remove(host)
print(enough and ("with %d NICs the network stops binding: a further one gains less than 5 %%"):format(enough)
  or "the network binds with all of them")
