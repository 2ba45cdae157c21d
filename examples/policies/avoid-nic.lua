-- SPDX-License-Identifier: Apache-2.0
-- A NIC that drops packets is still up, and still used. Until it is replaced, cross hosts only
-- through gateways whose own NICs are sound. With fewer gateways than ranks these are spread evenly:
-- gateway g of G on a host of N ranks is its rank g * N / G.
local FLAKY = {mlx5_3 = true, cxi3 = true}

local policy = {description = "cross hosts only through gateways with sound NICs"}

local function nic_of(rank, fabric)
    return rank.nic >= 0 and fabric.nics[rank.nic + 1].name or ""
end

-- The ranks of a host; nil where hosts differ.
local function ranks_of_a_host(fabric)
    local n = fabric.nranks // fabric.hosts
    return n * fabric.hosts == fabric.nranks and n or nil
end

local function is_sound(gateways, n, fabric)
    for _, rank in ipairs(fabric.ranks) do
        for g = 0, gateways - 1 do
            if rank.index == g * n // gateways and FLAKY[nic_of(rank, fabric)] then
                return false
            end
        end
    end
    return true
end

function policy.candidates(req, fabric)
    local n = ranks_of_a_host(fabric)
    if fabric.hosts == 1 or not n or req.nranks ~= fabric.nranks then
        return nil
    end
    for gateways = n // 2, 1, -1 do
        if is_sound(gateways, n, fabric) then
            return {
                drop = function(candidate)
                    return true
                end,
                {algorithm = "hierarchical", levels = "host", gateways = gateways},
            }
        end
    end
    error("every choice of gateways has a flaky NIC")
end

return policy
