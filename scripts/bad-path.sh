#!/bin/sh
# Real programs over a bad network: curl both ways, git clone, and iperf3 both ways, each in a guest of its own with CUBIC and in one
# with NewReno, over the link that `mbuma run --impair` emulates. A row tells the seconds and the rate; it fails unless the bytes that
# arrive have the hash of those that were sent. Down is sent by mbuma, up by the guest's kernel: where the machine does not let it have
# CUBIC, the row names the algorithm that it has.
#
#   scripts/bad-path.sh [LINK [MB]]     default: rate=20mbit,delay=40ms,loss=1%,reorder=1% 50
#
# Wants Debian packages curl git iperf3 python3, and no root. All guests run at once: each has a link of its own.
# MBUMA is the program, default target/release/mbuma.
set -eu
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac

link=${1:-rate=20mbit,delay=40ms,loss=1%,reorder=1%}
mb=${2:-50}
mbuma=$(realpath "${MBUMA:-target/release/mbuma}")
dir=$(mktemp -d)
trap 'kill $servers 2>/dev/null || true; rm -rf "$dir"' EXIT
servers=
cd "$dir"

head -c "${mb}000000" /dev/urandom >sent
sent=$(sha256sum <sent)

# A server for GET and PUT that keeps what is put under its name.
cat >server.py <<'PYTHON'
import http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_PUT(self):
        left = int(self.headers['Content-Length'])
        with open('.' + self.path, 'wb') as out:
            while left > 0:
                left -= out.write(self.rfile.read(min(left, 1 << 16)))
        self.send_response(201)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
python3 server.py >http.port &
servers="$servers $!"

# A repository of a fifth of the bytes, in ten files.
git init -q repository
(
    cd repository
    for i in 0 1 2 3 4 5 6 7 8 9; do head -c $((mb * 20000)) /dev/urandom >$i; done
    git add .
    git -c user.name=x -c user.email=x@localhost commit -qm files
)
head=$(git -C repository rev-parse HEAD)
free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
git_port=$(free_port)
git daemon --export-all --base-path="$dir" --listen=127.0.0.1 --port="$git_port" 2>/dev/null &
servers="$servers $!"
until [ -s http.port ]; do sleep 0.1; done
http_port=$(cat http.port)

# Runs COMMAND in a guest whose kernel sends with the algorithm too, where it may choose; gives its output.
guest() { # ALGORITHM COMMAND
    setting=/proc/sys/net/ipv4/tcp_congestion_control
    "$mbuma" run -r --host-loopback --impair "$link" --congestion "$1" -- \
        sh -c "echo $1 >$setting; cat $setting >guests.$1; $2" 2>/dev/null
}

row() { # NAME ALGORITHM SECONDS BYTES RIGHT
    echo "$3 $4" | awk -v name="$1" -v algorithm="$2" -v right="$5" \
        '{ printf "%-14s %-6s %8.1f s %7.2f Mbit/s  %s\n", name, algorithm, $1, $2 * 8 / $1 / 1e6, right }'
}

is() { [ "$1" = "$2" ] && echo "equal hash" || echo "FAILED: other bytes"; }

curl_down() {
    took=$(guest "$1" "curl -sS -o down.$1 -w '%{time_total}' http://10.0.2.2:$http_port/sent")
    row "curl, down" "$1" "$took" "${mb}000000" "$(is "$(sha256sum <"down.$1")" "$sent")"
}

curl_up() {
    took=$(guest "$1" "curl -sS -T sent -w '%{time_total}' http://10.0.2.2:$http_port/up.$1")
    row "curl, up" "$(cat "guests.$1")" "$took" "${mb}000000" "$(is "$(sha256sum <"up.$1")" "$sent")"
}

git_clone() {
    begin=$(date +%s.%N)
    guest "$1" "git clone -q git://10.0.2.2:$git_port/repository clone.$1" >/dev/null || true
    took=$(echo "$(date +%s.%N) $begin" | awk '{ print $1 - $2 }')
    git -C "clone.$1" fsck --no-progress >/dev/null 2>&1 || echo "FAILED: git fsck"
    row "git clone" "$1" "$took" "$((mb * 200000))" "$(is "$(git -C "clone.$1" rev-parse HEAD)" "$head")"
}

iperf() { # ALGORITHM NAME OPTIONS
    port=$(free_port)
    iperf3 -s -1 -B 127.0.0.1 -p "$port" >/dev/null &
    sleep 1
    found=$(guest "$1" "iperf3 -J -t 30 $3 -c 10.0.2.2 -p $port" |
        python3 -c 'import json, sys; e = json.load(sys.stdin)["end"]["sum_received"]; print(e["seconds"], int(e["bytes"]))')
    sender=$1
    [ -n "$3" ] || sender=$(cat "guests.$1")
    row "$2" "$sender" "${found% *}" "${found#* }" ""
}

for algorithm in cubic reno; do
    curl_down $algorithm >row.1.$algorithm 2>&1 &
    jobs="${jobs:-} $!"
    curl_up $algorithm >row.2.$algorithm 2>&1 &
    jobs="$jobs $!"
    git_clone $algorithm >row.3.$algorithm 2>&1 &
    jobs="$jobs $!"
    iperf $algorithm "iperf3, down" -R >row.4.$algorithm 2>&1 &
    jobs="$jobs $!"
    iperf $algorithm "iperf3, up" "" >row.5.$algorithm 2>&1 &
    jobs="$jobs $!"
done
for job in $jobs; do wait "$job" || true; done
echo "$link, $mb MB"
cat row.*
[ "$(cat row.* | grep -c "equal hash")" = 6 ] && ! grep -q FAILED row.*
