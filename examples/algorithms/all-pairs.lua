-- SPDX-License-Identifier: Apache-2.0
-- All-pairs allreduce: rank r adds up chunk r of everybody and gives it to everybody.
local function others(r, n)
  local list = {}
  for i = 1, n - 1 do list[i] = (r + i) % n end
  return list
end

return peal.algorithm {
  name = "lua-all-pairs",
  collective = "allreduce",
  chunks = function(n) return n end,
  schedule = function(s, n)
    for r = 0, n - 1 do s:reduce { chunk = r, from = others(r, n), to = r } end
    for r = 0, n - 1 do s:copy { chunk = r, from = r, to = others(r, n) } end
  end,
}
