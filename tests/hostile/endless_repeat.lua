-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
repeat local x = 1 until false
