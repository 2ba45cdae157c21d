-- SPDX-License-Identifier: Apache-2.0
-- What was measured beats what is predicted, at the sizes that were measured: paste the rows of a
-- benchmark (bytes, algorithm, channels). Other sizes are the planner's.
local MEASURED = [[
bytes,algorithm,channels
65536,ring,2
1048576,ring,8
16777216,tree,4
]]

local policy = {description = "pin by size from a measured table", sizes = {}}
local pinned = {}

for bytes, algorithm, channels in MEASURED:gmatch("(%d+),(%w+),(%d+)") do
    bytes = tonumber(bytes)
    pinned[bytes] = {algorithm = algorithm, channels = tonumber(channels)}
    table.insert(policy.sizes, bytes)
    table.insert(policy.sizes, bytes - 1) -- a choice ends here, another one begins
end

function policy.choose(candidates, req, fabric)
    return pinned[req.bytes]
end

return policy
