-- SPDX-License-Identifier: Apache-2.0
-- fails: rawset
rawset({}, 1, 2)
