#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: lua plain
# The policies of the cookbook on two machines: what `peal policy check` says is kept in
# tests/golden/policies. With PEAL_GOLDEN=write it is written there instead.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
policies=$PEAL_SOURCE/examples/policies
golden=$PEAL_SOURCE/tests/golden/policies
dgx=$topologies/dgx-h100.xml
"$PEAL" topo cluster "$topologies/slingshot-4gpu.xml" --nodes 2 -o two.xml

collective_of() {
    case $1 in
    zero-sm-prefetch) echo allgather ;;
    *) echo allreduce ;;
    esac
}

count=0
for policy in "$policies"/*.lua; do
    name=$(basename "$policy" .lua)
    for machine in dgx two; do
        topology=two.xml
        [ $machine = two ] || topology=$dgx
        expect 0 "$PEAL" policy check "$policy" "$topology" -c "$(collective_of "$name")"
        if [ "${PEAL_GOLDEN:-}" = write ]; then cp out "$golden/$name.$machine.txt"; fi
        expect_same out "$golden/$name.$machine.txt"
        # The same on every run.
        cp out first
        expect 0 "$PEAL" policy check "$policy" "$topology" -c "$(collective_of "$name")"
        expect_same out first
        count=$((count + 1))
    done
done
[ $count -ge 16 ] || die "only $count comparisons"

# What a policy chose is proven, and moves the right bytes.
expect 0 "$PEAL" verify two.xml --policy "$policies/avoid-nic.lua" --policy "$policies/sm-priced.lua"
expect 0 "$PEAL" verify "$dgx" -c allgather --policy "$policies/zero-sm-prefetch.lua"
expect 0 "$PEAL" compile "$dgx" -c allgather -b 2M:4M --policy "$policies/zero-sm-prefetch.lua" -o ce.peal
expect 0 "$PEAL" dump ce.peal
expect_out ' ce'
expect 0 "$PEAL" run "$dgx" -n 4 -b 64K --policy "$policies/pin-by-size.lua" --check
expect_out ring

# A measured table is followed at exactly its sizes.
expect 0 "$PEAL" plan "$dgx" --policy "$policies/pin-by-size.lua" --json
expect_json '[(r["min_bytes"], r["max_bytes"]) for r in j["rows"] if r["algorithm"] == "ring"] == [(65536, 65536), (1048576, 1048576)]'
expect_json '[(r["min_bytes"], r["channels"]) for r in j["rows"] if r["algorithm"] == "tree"] == [(16777216, 4)]'
