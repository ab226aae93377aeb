#!/bin/sh
# parallel.sh NAME COMMAND [NAME COMMAND ...]: runs shell commands side by side.
# Shows the whole output of each below its name, in this order, then names those that failed. Ends with the status of
# the last one that failed.
set -eu

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# background commands of a shell ignore Ctrl-C
trap 'trap "" TERM; kill 0; exit 130' INT

names="" running="" failed="" status=0
while [ $# -gt 1 ]; do
    sh -euc "$2" >"$out/$1" 2>&1 </dev/null &
    names="$names $1" running="$running $1:$!"
    shift 2
done
echo "Side by side:$names ..."
for each in $running; do
    name=${each%:*} ended=0
    wait "${each##*:}" || ended=$?
    printf '\n== %s\n' "$name"
    cat "$out/$name"
    if [ "$ended" != 0 ]; then
        failed="$failed $name" status=$ended
    fi
done
if [ "$failed" ]; then
    printf '\nFailed:%s. Their output is above.\n' "$failed" >&2
fi
exit "$status"
