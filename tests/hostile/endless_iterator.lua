-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
for k in function() return 1 end do end
