-- SPDX-License-Identifier: Apache-2.0
-- Weights that are fetched while the model computes must not take its SMs: copy engines and NICs
-- move them. What is small, or adds up, is left to the planner.
local LARGE = 1 * peal.MiB

local policy = {description = "large messages without a single SM, where nothing is reduced"}

policy.sizes = {LARGE - 1}

function policy.candidates(req, fabric)
    if not req.reduces then
        return {{zero_sm = true}}
    end
end

function policy.choose(candidates, req, fabric)
    if not req.reduces and req.bytes >= LARGE then
        return {zero_sm = true}
    end
end

function policy.check(plan, req, fabric)
    return req.reduces or plan.min_bytes < LARGE or plan.sms == 0, "it holds SMs"
end

return policy
