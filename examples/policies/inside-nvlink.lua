-- SPDX-License-Identifier: Apache-2.0
-- Tensor parallelism is for the links inside an NVLink domain. Where all ranks are in one, nothing
-- may leave it; where they are not, as little as possible crosses: each domain is done with its own
-- part before anything goes out.
local policy = {description = "keep traffic inside the NVLink domain"}

local function domains(req)
    local seen, count = {}, 0
    for r = 0, req.nranks - 1 do
        local domain = req:rank(r).nvlink_domain
        if not seen[domain] then
            seen[domain] = true
            count = count + 1
        end
    end
    return count
end

local LEAVES = {"pcie", "smp", "net"}

function policy.candidates(req, fabric)
    if domains(req) > 1 then
        return {keep = {"hierarchical"}}
    end
    return {
        drop = function(candidate)
            for _, class in ipairs(LEAVES) do
                if candidate:engine(class) then
                    return true
                end
            end
            return false
        end,
    }
end

return policy
