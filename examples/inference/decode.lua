-- SPDX-License-Identifier: Apache-2.0
-- Decoding: the activations of a few tokens, and every rank waits for them. What does not shrink
-- with the message is what counts, so take the schedule with the least of it.
local policy = {description = "decode: the fewest start-ups"}

function policy.choose(candidates, req, fabric)
    local best = candidates[1]
    for _, candidate in ipairs(candidates) do -- fastest first: of equals the faster one stays
        if candidate.alpha_us < best.alpha_us then
            best = candidate
        end
    end
    return best
end

return policy
