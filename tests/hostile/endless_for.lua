-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
for i = 1, math.maxinteger do end
