-- SPDX-License-Identifier: Apache-2.0
-- fails: dofile
dofile("x.lua")
