#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/cli_docs.sh PEAL: puts what `PEAL help --markdown` says into docs/cli.md.
set -euo pipefail
peal=$1
cd "$(dirname "$0")/.."
{
    sed '/<!-- from: peal help --markdown -->/q' docs/cli.md
    "$peal" help --markdown
    sed -n '/<!-- end -->/,$p' docs/cli.md
} >docs/cli.md.new
mv docs/cli.md.new docs/cli.md
