#!/bin/sh
# A directory of a million files and a file of 100 GiB, served by `mbuma serve`: the memory of the server must not grow with
# either. It prints the peak, and fails if that is more than MAX_MB (default: 100) with the default `--cache`, or if a client
# gets other bytes than those of the files.
#
# Wants root, curl, python3, and some 2 GB of memory for a file system of its own.
# Nothing of the machine changes: the server has a network and a mount namespace of its own.
# MBUMA is the program to test, default target/debug/mbuma. FILES is the number of files.
set -eu
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac

MBUMA=$(realpath "${MBUMA:-target/debug/mbuma}")
if [ -z "${IN_NAMESPACE:-}" ]; then
    IN_NAMESPACE=1 MBUMA=$MBUMA exec unshare --net --mount "$0"
fi
files=${FILES:-1000000} max=${MAX_MB:-100}

site=$(mktemp -d)
trap 'kill $server 2>/dev/null || :; wait; umount "$site"; rmdir "$site"' EXIT
server=
mount -t tmpfs -o size=1g,nr_inodes=0,mode=755 tmpfs "$site"
mkdir "$site/many"
python3 - "$site/many" "$files" <<'PYTHON'
import os, sys
where, count = sys.argv[1], int(sys.argv[2])
for n in range(count):
    with open(f"{where}/{n:07}", "w") as file:
        if n % 100 == 0:
            file.write(f"the file {n}\n" * 100)
PYTHON
# A sparse file: a word at each GiB, and at its end.
python3 - "$site/large" <<'PYTHON'
import sys
with open(sys.argv[1], "wb") as file:
    for n in range(100):
        file.seek(n << 30)
        file.write(b"GiB %03d\n" % n)
    file.seek((100 << 30) - 4)
    file.write(b"end\n")
PYTHON

ip link set lo up
"$MBUMA" serve "$site" --tap srv0 --address 192.0.2.2/24 >"$site/log" 2>&1 &
server=$!
for _ in $(seq 100); do
    grep -q 'serving at' "$site/log" && break
    sleep 0.1
done
url=http://192.0.2.2
peak() { # of the server and the process that serves, in MB
    for pid in $server $(pgrep -P $server); do
        sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status"
    done | python3 -c 'import sys; print(sum(map(int, sys.stdin)) // 1024)'
}
failed=0
same() { # NAME EXPECTED GOT
    [ "$2" = "$3" ] && echo "ok: $1, peak $(peak) MB" || { failed=1 && echo "FAILED: $1: got $3, expected $2"; }
}

same 'a small file' 'the file' "$(curl -sf -r 0-7 $url/many/0000100)"
same 'the end of 100 GiB' end "$(curl -sf -r 107374182396- $url/large)"
same 'a word in their middle' 'GiB 057' "$(curl -sf -r 61203283968-61203283975 $url/large)"
same '4 GiB in one answer' 4294967296 "$(curl -sf -r 0-4294967295 $url/large | wc -c)"
same 'the names of all files' "$files" "$(curl -sf $url/many/ | grep -c 'href="[./]*[0-9]')"
got=$(seq -f "url=$url/many/%07.0f" 0 100 $((files - 1)) | curl -sfK - | grep -c '^the file')
same 'the bytes of one file in a hundred' "$files" "$got"
peak=$(peak)
[ "$peak" -le "$max" ] || { failed=1 && echo "FAILED: a peak of $peak MB, and $max may be"; }
exit $failed
