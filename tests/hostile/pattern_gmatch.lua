-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = ("a"):rep(8000)
for w in s:gmatch(".-.-.-.-b") do end
