#!/bin/sh
# The allocator under fire, by hand: aborts at every instruction, storms, the negative control.
# Takes some minutes. OPS sets the operations of the long storm, default 1e9.
set -u
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac
cd "$(dirname "$0")/.." || exit 1

OPS=${OPS:-1000000000}
LOG=$(mktemp) || exit 1
trap 'rm -f "$LOG"' EXIT
FAILED=0

# one NAME EXPECTED_EXIT_CODE COMMAND...: runs it, keeps a line about it.
one() {
    name=$1 expected=$2
    shift 2
    out=$("$@" 2>&1)
    code=$?
    if [ "$code" -eq "$expected" ]; then verdict=ok; else
        verdict="FAILED (exit $code)"
        FAILED=1
        printf '%s\n' "$out"
    fi
    line=$(printf '%s\n' "$out" | grep -E 'operations|places in' | tail -n 1)
    : "${line:=$(printf '%s\n' "$out" | grep 'test result' | tail -n 1)}"
    printf '%-22s %-8s %s\n' "$name" "$verdict" "$line" | tee -a "$LOG"
}

cargo build -q --release -p mbuma-uma --features stretched --example storm || exit 1
# The same with nothing left of the knobs: what users get.
PLAIN=${CARGO_TARGET_DIR:-target}/plain
cargo build -q --release -p mbuma-uma --example storm --target-dir "$PLAIN" || exit 1
STRETCHED=${CARGO_TARGET_DIR:-target}/release/examples/storm
PLAIN=$PLAIN/release/examples/storm

one 'every instruction' 0 cargo test -q --release -p mbuma-uma --test abort -- --nocapture
one 'stretched, 64 threads' 0 "$STRETCHED" --seconds 15 --threads 64 --stretch 3000
one 'stretched, 16 threads' 0 "$STRETCHED" --seconds 15 --threads 16 --stretch 300
one 'plain' 0 "$PLAIN" --seconds 30 --threads 16 --ops "$OPS"
one 'under locks' 0 "$PLAIN" --seconds 15 --threads 16 --backend lock
one 'negative control' 3 "$STRETCHED" --seconds 20 --threads 16 --stretch 300 --unarmed

echo
echo 'Summary'
cat "$LOG"
exit $FAILED
