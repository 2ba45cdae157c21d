-- SPDX-License-Identifier: Apache-2.0
-- fails: more than 250 arguments or results
local function f(n) if n == 0 then return 1 end return 1,2,3,4,5,6,7,8,9,10, f(n - 1) end
f(5000)
