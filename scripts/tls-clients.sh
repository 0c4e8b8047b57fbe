#!/bin/sh
# Clients of TLS that others wrote, against `mbuma serve --tls`: each must get the bytes of the files, or end the
# connection as it chose to, and the server must go on.
#
# Wants root. Programs: openssl, and of curl, wget, python3, wrk, chromium-headless-shell (or chromium) those that are
# installed; the others are skipped, tls-records.py unless python3 has tlslite-ng (PyPI), and tlsfuzzer's scripts unless
# TLSFUZZER is the directory of a checkout that python3 can run.
# Nothing of the machine changes: the server has a network namespace of its own.
# MBUMA is the program to test, default target/debug/mbuma.
set -eu
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac

MBUMA=$(realpath "${MBUMA:-target/debug/mbuma}")
records=$(realpath "$(dirname "$0")/tls-records.py")
if [ -z "${IN_NAMESPACE:-}" ]; then
    IN_NAMESPACE=1 MBUMA=$MBUMA exec unshare --net "$0"
fi

dir=$(mktemp -d)
chmod 755 "$dir"
trap 'kill $server 2>/dev/null || :; rm -rf "$dir"' EXIT
cd "$dir"
mkdir site
head -c 3000000 /dev/urandom >site/big
echo small >site/small
page='<html>'
for n in $(seq 50); do
    head -c 20000 /dev/urandom >"site/$n.css"
    page="$page<link rel=stylesheet href=/$n.css>"
done
page="$page<script>onload = () => { document.title = 'all ' + document.styleSheets.length }</script></html>"
echo "$page" >site/page.html
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=mbuma \
    -addext subjectAltName=IP:192.0.2.2 -out cert.pem -keyout key.pem 2>/dev/null
ip link set lo up
"$MBUMA" serve site --tap srv0 --address 192.0.2.2/24 --tls cert.pem key.pem 2>serve.err &
server=$!
for _ in $(seq 100); do
    grep -q 'serving at' serve.err && break
    sleep 0.1
done
url=https://192.0.2.2

failed=0 count=0
has() { command -v "$1" >/dev/null; }

# Each row runs a script, whose output is to be the word.
row() { # NAME PROGRAM WORD SCRIPT
    has "$2" || { echo "skipped: $1: there is no $2 here" && return 0; }
    out=$(timeout 60 sh -c "$4" 2>&1) || :
    case $out in
    *"$3"*) count=$((count + 1)) && echo "ok: $1" ;;
    *) failed=1 && echo "FAILED: $1: $(echo "$out" | tail -n 3)" ;;
    esac
}

ask="printf 'GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'"
body="sed '1,/^\r\$/d' | cmp - site/big && echo same"
client="openssl s_client -connect 192.0.2.2:443 -CAfile cert.pem -quiet -no_ign_eof"

for version in 1.2 1.3; do
    row "curl, TLS $version" curl same \
        "curl -sS --cacert cert.pem --tlsv$version --tls-max $version $url/big | cmp - site/big && echo same"
done
row 'curl, many requests of one connection' curl same \
    "curl -sS --cacert cert.pem $url/big $url/small $url/big >three
     cat site/big site/small site/big | cmp - three && echo same"
row wget wget same "wget -q --ca-certificate=cert.pem -O - $url/big | cmp - site/big && echo same"
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
    row "openssl, $suite" openssl same "($ask; sleep 2) | $client -tls1_3 -ciphersuites $suite 2>/dev/null | $body"
done
for suite in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305; do
    row "openssl, $suite" openssl same "($ask; sleep 2) | $client -tls1_2 -cipher $suite 2>/dev/null | $body"
done
row 'openssl, suites without an AEAD are refused' openssl 'alert handshake failure' \
    "openssl s_client -connect 192.0.2.2:443 -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA </dev/null"
row 'openssl, small records' openssl same "($ask; sleep 2) | $client -max_send_frag 512 2>/dev/null | $body"
# K asks for the peer's new key too, k does not; both before and amid requests.
row 'openssl, new keys of both sides' openssl 'HTTP/1.1 200 OK' "
    (echo K; sleep 0.3; echo k; sleep 0.3; echo K; sleep 0.3
     printf 'GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'; sleep 1) |
        openssl s_client -connect 192.0.2.2:443 -CAfile cert.pem -tls1_3 -no_ign_eof"
row 'openssl, a session is taken up again' openssl Reused "
    (sleep 0.5) | openssl s_client -connect 192.0.2.2:443 -CAfile cert.pem -tls1_3 -sess_out s.pem >/dev/null
    (sleep 0.5) | openssl s_client -connect 192.0.2.2:443 -CAfile cert.pem -tls1_3 -sess_in s.pem"
row 'openssl, a client that leaves early' openssl small "
    for n in 1 2 3 4 5 6 7 8; do ($ask) | timeout 0.2 $client >/dev/null || :; done
    (printf 'GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'; sleep 1) | $client"
row 'python ssl' python3 same "python3 -I - <<'END'
import ssl, urllib.request
context = ssl.create_default_context(cafile='cert.pem')
with urllib.request.urlopen('$url/big', context=context) as answer:
    print('same' if answer.read() == open('site/big', 'rb').read() else 'differs')
END"
row wrk wrk 'requests in' "wrk -c 16 -t 1 -d 1s $url/small | grep -v Non-2xx"
browser=chromium-headless-shell
has $browser || browser=chromium
row 'chromium, a page of 50 objects' $browser 'all 50' "
    HOME=$dir $browser --headless --no-sandbox --disable-gpu --ignore-certificate-errors --virtual-time-budget=20000 \
        --dump-dom $url/page.html 2>/dev/null | grep -q '<title>all 50' && echo all 50"
if python3 -c 'import tlslite' 2>/dev/null; then
    row 'tlslite-ng, records that break the rules' python3 ' 0 differences' "python3 '$records' 192.0.2.2 443"
else
    echo 'skipped: tlslite-ng is not installed (pip install tlslite-ng)'
fi
if [ -d "${TLSFUZZER:-}" ]; then
    for script in conversation test-tls13-conversation test-tls13-keyupdate test-tls13-record-padding \
        test-tls13-record-layer-limits test-tls13-zero-length-data test-fuzzed-ciphertext test-tls13-finished; do
        row "tlsfuzzer, $script" python3 'FAIL: 0' \
            "PYTHONPATH='$TLSFUZZER' python3 '$TLSFUZZER/scripts/$script.py' -h 192.0.2.2 -p 443"
    done
else
    echo 'skipped: tlsfuzzer: TLSFUZZER is no directory'
fi

kill -TERM $server
wait $server && echo "ok: the server ends when it is asked to" || failed=1
echo "$count clients"
exit $failed
