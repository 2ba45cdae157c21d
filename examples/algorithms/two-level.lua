-- SPDX-License-Identifier: Apache-2.0
-- Two-level allreduce on hosts of equally many ranks: each rank adds up its part of the message
-- inside its host, then with the ranks of its rail on the other hosts, and back. The four stages
-- work on tiles that follow each other.
local function without(list, one)
  local rest = {}
  for _, r in ipairs(list) do
    if r ~= one then rest[#rest + 1] = r end
  end
  return rest
end

return peal.algorithm {
  name = "lua-two-level",
  collective = "allreduce",
  chunks = function(n) return n end,
  schedule = function(s, n, fabric)
    local hosts = #fabric.hosts
    local function piece(host, place) -- of the part of the ranks at a place, the host's own piece
      return (place - 1) * hosts + (host - 1) % hosts
    end
    local function each(turns, step) -- pieces of others come first, the own one last
      for turn = 1, turns do
        for h, host in ipairs(fabric.hosts) do
          for place, rank in ipairs(host) do step(turn, h, place, rank) end
        end
      end
    end
    local function rail(h, place) return fabric.hosts[(h - 1) % hosts + 1][place] end
    each(hosts, function(turn, h, place, rank)
      s:reduce { chunk = piece(h + turn, place), from = without(fabric.hosts[h], rank), to = rank }
    end)
    s:stage()
    each(hosts - 1, function(turn, h, place, rank)
      s:reduce { chunk = piece(h + turn, place), from = rank, to = rail(h + turn, place) }
    end)
    s:stage()
    each(hosts - 1, function(turn, h, place, rank)
      s:copy { chunk = piece(h, place), from = rank, to = rail(h + turn, place) }
    end)
    s:stage()
    each(hosts, function(turn, h, place, rank)
      s:copy { chunk = piece(h - turn + 1, place), from = rank, to = without(fabric.hosts[h], rank) }
    end)
  end,
}
