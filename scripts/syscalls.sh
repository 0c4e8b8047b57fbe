#!/bin/sh
# Compares the system calls that isolated processes may make (crates/cli/src/sandbox/syscalls.rs) with those that they make in
# the end-to-end tests. One that is allowed and never made fails this script, unless the table below has the reason. So does a
# row of the table whose call is made. Tests may fail here: strace slows them, and takes from programs the right to gain rights.
#
#   scripts/syscalls.sh [WORDS]     WORDS choose tests, as for `cargo test`; a call that is not made is then no failure
#
# Wants root, x86-64 and strace; takes some minutes. No other test may run meanwhile.
set -eu
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac

# Calls that are allowed, and that no test makes.
unmade='
clock_gettime where the vDSO has none
getcpu        per-CPU caches without rseq
nanosleep     a sleep, in C libraries that use it
'
# Calls that only some runs make: a thread that SIGSTOP finds in a wait with a time.
sometimes='restart_syscall'
# Calls that each packet takes. They are traced in a few tests only, because each stops its thread.
often='read readv write writev recvmsg sendmsg epoll_pwait futex fcntl sched_yield'
few='names_are_resolved a_stream_over_ipv6 files_are_served the_signal_shows_locks'
# It traces a process itself, which only one program can.
tracing='the_helper_refuses_tracing'

skip() { echo "skipped: $1" && exit 0; }
cd "$(dirname "$0")/.."
test "$(uname -m)" = x86_64 || skip "the list is compared on x86-64 only"
test "$(id -u)" = 0 || skip "not root"
command -v strace >/dev/null || skip "there is no strace"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
built=$(cargo test -p mbuma-cli --test e2e --no-run 2>&1) || { echo "$built" && exit 1; }
tests=$(echo "$built" | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
tests=$(realpath "$tests")

words() { tr -s ' ' '\n' | sort -u | sed '/^$/d'; }
# clone3 is in the list to be refused.
sed '/^#\[cfg(test)\]/,$d' crates/cli/src/sandbox/syscalls.rs | grep -o 'SYS_[a-z0-9_]*' | sed 's/^SYS_//' | grep -vx clone3 |
    words >"$dir/allowed"
echo "$often" | words >"$dir/often"

# The calls of isolated processes in a trace. Both filters make a process isolated, for all its threads; a child process of an
# isolated one would be. The lines of a thread may come before the return of the call that makes it.
made() {
    awk '
        function begin(tid, parent, is_thread,    lines, n, i, some) {
            group[tid] = is_thread ? group[parent] : tid
            if (!is_thread) filters[tid] = filters[group[parent]]
            n = split(early[tid], some, "\n")
            delete early[tid]
            for (i = 2; i <= n; i++) take(tid, some[i])
        }
        function take(tid, text,    name, child) {
            if (!(tid in group)) { early[tid] = early[tid] "\n" text; return }
            name = text
            if (sub(/^<\.\.\. /, "", name)) sub(/ resumed>.*/, "", name)
            else {
                sub(/\(.*/, "", name)
                if (filters[group[tid]] >= 2) print name
                call[tid] = text
            }
            if (text !~ / = [0-9]+( \/\* [0-9]+ in strace.*)?$/) return
            child = text
            # The number that strace knows it by, where a namespace has another.
            if (!sub(/.* = [0-9]+ \/\* /, "", child)) sub(/.* = /, "", child)
            sub(/ in strace.*/, "", child)
            if (name == "seccomp" && call[tid] ~ /SET_MODE_FILTER/) filters[group[tid]]++
            if (name ~ /^(clone|clone3|fork|vfork)$/) begin(child, tid, call[tid] ~ /CLONE_THREAD/)
        }
        NR == 1 { group[$1] = $1 }
        { tid = $1; sub(/^[0-9]+ +/, ""); take(tid, $0) }
    ' "$1" | sort -u
}

# Runs tests under strace. $1: the calls; the rest: the tests.
traced() {
    calls=$(tr '\n' ',' <"$1")clone,clone3,fork,vfork,seccomp && shift
    (cd crates/cli && strace -f --seccomp-bpf -qq --decode-pids=pidns -e signal=none -e "trace=$calls" -o "$dir/trace" \
        "$tests" --skip "$tracing" "$@") || true
    made "$dir/trace" >>"$dir/made"
}

grep -vxFf "$dir/often" "$dir/allowed" >"$dir/seldom"
traced "$dir/seldom" "$@"
# shellcheck disable=SC2086
traced "$dir/often" ${*:-$few}

failed=0
echo "$unmade" | sed 's/ .*//' | words >"$dir/excused"
echo "$sometimes" | words >"$dir/sometimes"
sort -u "$dir/made" | grep -xFf "$dir/allowed" >"$dir/seen" || true
echo "allowed: $(wc -l <"$dir/allowed"), made in these tests: $(wc -l <"$dir/seen")"
grep -vxFf "$dir/seen" "$dir/allowed" | grep -vxFf "$dir/excused" | grep -vxFf "$dir/sometimes" >"$dir/missing" || true
if test -s "$dir/missing"; then
    echo "allowed and not made:" $(cat "$dir/missing")
    test $# -gt 0 || failed=1
fi
if grep -xFf "$dir/excused" "$dir/seen"; then
    echo "made, though the table says that no test does" && failed=1
fi
exit $failed
