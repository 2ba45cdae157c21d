-- SPDX-License-Identifier: Apache-2.0
-- What a schedule costs is not its time alone: an accelerator that waits burns power, and an SM that
-- moves data burns more and computes nothing. Choose by energy, in the place of time.
local IDLE_WATTS = 120 -- of an accelerator while it waits for the collective
local SM_WATTS = 4 -- of an SM that copies or reduces

local policy = {description = "least energy instead of least time"}

function policy.cost(candidate, req, fabric, us)
    local watts = IDLE_WATTS + SM_WATTS * candidate.sms
    return us * watts / IDLE_WATTS
end

return policy
