-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = ("a"):rep(100000)
local set = "[" .. ("bc"):rep(5000) .. "]"
s:find(set)
