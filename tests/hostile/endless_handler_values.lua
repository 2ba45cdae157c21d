-- SPDX-License-Identifier: Apache-2.0
-- fails: more than 250 arguments or results
local function many(n, ...)
    if n == 0 then return 1 end
    return many(n - 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)
end
xpcall(many, function() while true do end end, 100)
