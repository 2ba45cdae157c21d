#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: lua threads
# The decoding example: several ranks make the tokens of one, and each phase has the schedule of
# its own policy.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
here=$PEAL_BUILD/examples/inference
small=(--layers 2 --batch 2 --prompt 8 --tokens 8)

algorithm() { # algorithm PHASE: of the last output
    sed -nE "s/^$1 +$1\.lua +[0-9]+  ([a-z]+): .*/\1/p" out
}

good() { # good ARGUMENT...: compares itself, and allocates nothing
    expect 0 "$here/inference" "${small[@]}" --print "$@"
    expect_out '^tokens: the same as those of one rank$'
    expect_out '^ranks: all have the same bits$'
    [ "$(grep -cE '^ +[1-8] .* 0$' out)" = 2 ] || die "peal has allocated in the loop"
    grep '^sequence' out >tokens
}

good --tp 1
cp tokens one
[ "$(wc -l <one)" = 2 ] || die "two sequences"
for ranks in 2 3 4 8; do
    good --tp $ranks
    expect_same tokens one
    [ "$(algorithm prefill)" = ring ] || die "$ranks ranks: prefill by $(algorithm prefill)"
    case $(algorithm decode) in
    '' | ring) die "$ranks ranks: decode by $(algorithm decode)" ;;
    esac
done
good --tp 5 --deterministic
expect_same tokens one
good --tp 8 --topology "$topologies/dgx-h100.xml"
expect_same tokens one
[ "$(algorithm prefill) $(algorithm decode)" = "ring oneshot" ] || die "other schedules on a DGX"

# It is the policies that decide.
mkdir swapped
cp "$here/prefill.lua" swapped/decode.lua
cp "$here/decode.lua" swapped/prefill.lua
good --tp 4 --policies swapped
expect_same tokens one
[ "$(algorithm decode)" = ring ] || die "swapped, and decode by $(algorithm decode)"
[ "$(algorithm prefill)" = oneshot ] || die "swapped, and prefill by $(algorithm prefill)"

# Another model makes other tokens.
good --tp 2 --seed 2
if cmp -s tokens one; then die "tokens do not depend on the model"; fi

expect 1 "$here/inference" --policies nowhere
expect_err 'nowhere/prefill.lua'
echo 'return 1 + * 2' >swapped/decode.lua
expect 1 "$here/inference" --policies swapped
expect_err 'swapped/decode.lua:1'
expect 2 "$here/inference" --tp 9
expect 2 "$here/inference" --tp 8 --heads 4
expect 2 "$here/inference" --tokens
echo ok
