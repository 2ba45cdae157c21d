-- SPDX-License-Identifier: Apache-2.0
-- Prefilling: the activations of whole prompts. The links are what counts, and beside them the SMs
-- that the schedule takes from the matrices: a ring passes each byte to one neighbour only, and
-- does it with few lanes.
local SMS = 8

local policy = {description = "prefill: a ring, by few SMs"}

function policy.choose(candidates, req, fabric)
    for _, candidate in ipairs(candidates) do -- fastest first
        if candidate.algorithm == "ring" and candidate.sms <= SMS then
            return candidate
        end
    end
end

return policy
