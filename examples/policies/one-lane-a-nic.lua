-- SPDX-License-Identifier: Apache-2.0
-- A NIC whose queues do not like company: one lane drives it, and no other does. Schedules of
-- several channels have one lane for each, so they need not be looked at; what is left is looked at
-- step by step before it is taken.
local policy = {description = "no NIC is driven by two lanes"}

function policy.candidates(req, fabric)
    if fabric.hosts > 1 then
        return {drop = function(candidate) return candidate.channels > 1 end}
    end
end

function policy.check(plan, req, fabric)
    local driver = {} -- of each NIC
    for rank = 0, req.nranks - 1 do
        local nic = req:rank(rank).nic
        for _, step in ipairs(plan:steps(rank, "net")) do
            local lane = rank .. "." .. step.lane
            if driver[nic] and driver[nic] ~= lane then
                return false, ("lanes %s and %s share %s"):format(driver[nic], lane,
                    fabric.nics[nic + 1].name)
            end
            driver[nic] = lane
        end
    end
end

return policy
