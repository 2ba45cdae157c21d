#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Help, completion and docs/cli.md say the same; the exit codes of the command line.
# ctest: plain
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"

expect 2 "$PEAL"
expect_err '^usage: peal'
expect 0 "$PEAL" help
expect_out '^usage: peal'
expect 0 "$PEAL" --help
expect 0 "$PEAL" -h
expect 2 "$PEAL" pln
expect_err "did you mean 'plan'"
expect 2 "$PEAL" help pln
expect_err "did you mean 'plan'"
expect 0 "$PEAL" --version
expect_out '^peal [0-9]+\.[0-9]+\.[0-9]+ '
expect 0 "$PEAL" version --json
expect_json 'j["schema"] == "peal.version/1" and isinstance(j["features"], list)'

expect 0 "$PEAL" help --markdown
cp out reference.md
sed -n '/<!-- from: peal help --markdown -->/,/<!-- end -->/p' "$PEAL_SOURCE/docs/cli.md" |
    sed '1d;$d' >documented.md
diff reference.md documented.md >out || die "docs/cli.md is not what 'peal help --markdown' says"

expect 0 "$PEAL" completion bash
cp out completion.bash
bash -n completion.bash
expect 2 "$PEAL" completion fish
complete_line() { # complete_line WORD...: what bash offers for the last word
    bash --norc -c '. ./completion.bash
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _peal; echo "${COMPREPLY[@]}"' _ "$@"
}
[ "$(complete_line peal ver)" = "verify version" ] || die "completion of verbs"
[ "$(complete_line peal run x --dtype bf)" = bfloat16 ] || die "completion of values"
[ "$(complete_line peal plan x --collective gather,allg)" = gather,allgather ] || die "completion of lists"
[ "$(complete_line peal run x -c scat)" = scatter ] || die "completion of collectives"

# Each verb's help names the options that its own parser, completion and JSON know.
expect 0 "$PEAL" help --json
expect_json 'j["schema"] == "peal.help/1"'
verbs=$(sed -nE 's/^### peal ([a-z]+)$/\1/p' reference.md)
for verb in $verbs; do
    expect 0 "$PEAL" "$verb" --help
    expect_out "^usage: peal $verb"
    expect_out "^example: .*peal "
    cp out direct
    expect 0 "$PEAL" help "$verb"
    expect_same out direct
    grep -oE -- '--[a-z][a-z-]+' direct | grep -vE -- '^--(check|bytes)$' | sort -u >in_help
    complete_line peal "$verb" -- | tr ' ' '\n' | grep -E -- '^--' |
        grep -vE -- '^--(check|bytes)$' | sort -u >in_completion
    # An example may use options too; every completed one has to be in the help.
    comm -13 in_help in_completion >out
    [ ! -s out ] || die "completion of $verb has options that its help lacks"
    expect 2 "$PEAL" "$verb" --no-such-option
done

# No colour where it is not wanted, none in pipes.
expect 0 env -u NO_COLOR TERM=xterm "$PEAL" topo host:2
grep -q "$(printf '\033')" out && die "colour in a pipe"
# Numbers are the same in every locale.
expect 0 env LC_ALL=de_DE.UTF-8 "$PEAL" plan host:2 --json
expect_json 'j["rows"][0]["time_us"] > 0'
echo ok
