-- SPDX-License-Identifier: Apache-2.0
-- One engine serves both: decoding sends a token's activations of a few sequences and waits for
-- them; prefilling sends those of thousands of tokens, behind which the next layer computes. The
-- size tells which: HIDDEN values of two bytes for each token.
local HIDDEN = 8192
local DECODE_TOKENS = 64 -- sequences that are decoded at once, at most
local PREFILL_SMS = 8

local DECODE = DECODE_TOKENS * HIDDEN * 2

local policy = {description = "decode: latency; prefill: few SMs"}

policy.sizes = {DECODE}

function policy.choose(candidates, req, fabric)
    if req.bytes <= DECODE then
        return candidates[1] -- the fastest, also where it takes more lanes than others as fast
    end
    for _, candidate in ipairs(candidates) do -- the fastest that leaves SMs to compute on
        if candidate.sms <= PREFILL_SMS then
            return candidate
        end
    end
end

return policy
