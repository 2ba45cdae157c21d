-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = ("a"):rep(8000)
s:gsub(".-.-.-b", "")
