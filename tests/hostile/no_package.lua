-- SPDX-License-Identifier: Apache-2.0
-- fails: require
require "os"
