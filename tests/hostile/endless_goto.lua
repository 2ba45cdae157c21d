-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
::again:: goto again
