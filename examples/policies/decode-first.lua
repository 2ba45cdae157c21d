-- SPDX-License-Identifier: Apache-2.0
-- Decoding sends small messages between layers that compute on every SM: of what is about as fast
-- as the best, take what holds the fewest SMs.
local SMALL = 512 * peal.KiB
local SLACK = 1.10

local policy = {description = "small messages: fewest SMs within 10 % of the best time"}

policy.sizes = {SMALL}

function policy.choose(candidates, req, fabric)
    if req.bytes > SMALL then
        return nil
    end
    local best = candidates[1]
    local limit = best.time_us * SLACK
    for _, candidate in ipairs(candidates) do
        if candidate.time_us > limit then
            break -- they come in the order of their times
        end
        if candidate.sms < best.sms then
            best = candidate
        end
    end
    return best
end

return policy
