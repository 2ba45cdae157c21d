-- SPDX-License-Identifier: Apache-2.0
-- fails: error object is a nil
error()
