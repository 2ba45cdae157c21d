-- SPDX-License-Identifier: Apache-2.0
-- Ring allreduce: a reduce-scatter round the ring, then an allgather. On several hosts there are
-- as many rings as ranks of a host, each of which leaves a host through another rank's NIC; odd
-- hosts are passed backwards, so that a ring enters the next host where it left the last.
local function order(fabric, ring)
  local ranks = {}
  for h, host in ipairs(fabric.hosts) do
    for i = 0, #host - 1 do
      local place = h % 2 == 1 and i or #host - 1 - i
      ranks[#ranks + 1] = host[(ring + place) % #host + 1]
    end
  end
  return ranks
end

local function rings(fabric)
  return #fabric.hosts > 1 and #fabric.hosts[1] or 1
end

return peal.algorithm {
  name = "lua-ring",
  collective = "allreduce",
  chunks = function(n, fabric) return n * rings(fabric) end,
  schedule = function(s, n, fabric)
    for ring = 0, rings(fabric) - 1 do
      local at, first = order(fabric, ring), ring * n
      s:stage()
      for step = 0, n - 2 do -- chunk p starts at place p; what has gone round once is complete
        for p = 0, n - 1 do
          s:reduce { chunk = first + (p - step) % n, from = at[p + 1], to = at[(p + 1) % n + 1] }
        end
      end
      for step = 0, n - 2 do
        for p = 0, n - 1 do
          s:copy { chunk = first + (p + 1 - step) % n, from = at[p + 1], to = at[(p + 1) % n + 1] }
        end
      end
    end
  end,
}
