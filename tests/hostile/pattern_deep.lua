-- SPDX-License-Identifier: Apache-2.0
-- fails: too complex
local p = ("(x"):rep(30) .. (")"):rep(30)
local s = ("x"):rep(400)
s:find(("x?"):rep(400) .. "y")
