-- SPDX-License-Identifier: Apache-2.0
-- fails: os
os.execute("true")
