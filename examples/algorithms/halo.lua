-- SPDX-License-Identifier: Apache-2.0
-- A collective of its own: ranks in a row, each of which gets what the ranks on its sides have,
-- added up with its own. Block r is what rank r gets, and what it and its neighbours give.
local function near(r, n)
  local ranks = { r }
  if r > 0 then ranks[#ranks + 1] = r - 1 end
  if r < n - 1 then ranks[#ranks + 1] = r + 1 end
  return ranks
end

return peal.algorithm {
  name = "lua-halo",
  collective = function(n)
    local blocks = {}
    for r = 0, n - 1 do blocks[r + 1] = { from = near(r, n), to = r } end
    return blocks
  end,
  chunks = function(n) return n end,
  schedule = function(s, n)
    for r = 0, n - 1 do
      for _, from in ipairs(near(r, n)) do
        if from ~= r then s:reduce { chunk = r, from = from, to = r } end
      end
    end
  end,
}
