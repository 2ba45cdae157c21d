-- SPDX-License-Identifier: Apache-2.0
-- fails: more than 250 arguments or results
local function f(n, ...) if n == 0 then while true do local a = select("#", ...) end end return f(n - 1, 1,2,3,4,5,6,7,8,9,10, ...) end
f(5000)
