-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = ("a"):rep(60)
s:find(("a-"):rep(30) .. "b")
