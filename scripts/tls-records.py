#!/usr/bin/env python3
"""A client that breaks the rules of TLS records, against `mbuma serve --tls` with a file `small`: "small", newline.

Usage: tls-records.py ADDRESS PORT. It needs tlslite-ng (PyPI), whose record layer is not ours, nor OpenSSL's.
Each case has the alert, or the end, that RFC 8446 or RFC 5246 requires. Prints each difference, and exits 1 for any.
"""
import socket
import sys

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import TLSAbruptCloseError, TLSRemoteAlert
from tlslite.messages import Message

AT = (sys.argv[1], int(sys.argv[2]))
REQUEST = b'GET /small HTTP/1.1\r\nHost: x\r\n\r\n'
ALERT, HANDSHAKE, DATA, CCS = 21, 22, 23, 20


class Client:
    def __init__(self, version):
        self.sock = socket.create_connection(AT)
        self.sock.settimeout(10)
        self.tls = TLSConnection(self.sock)
        settings = HandshakeSettings()
        settings.minVersion = settings.maxVersion = version
        self.tls.handshakeClientCert(settings=settings)

    def put(self, kind, *parts):
        """Each part as a record of its own."""
        for part in parts:
            for _ in self.tls._recordLayer.sendRecord(Message(kind, bytearray(part))):
                pass

    def pad(self, zeros):
        self.tls._recordLayer.padding_cb = lambda length, kind, most: zeros
        self.put(DATA, REQUEST)

    def next_key(self):
        session = self.tls.session
        session.cl_app_secret, session.sr_app_secret = self.tls._recordLayer.calcTLS1_3KeyUpdate_reciever(
            session.cipherSuite, session.cl_app_secret, session.sr_app_secret)

    def update(self, request=0, cut=False):
        message = bytes([24, 0, 0, 1, request])
        self.put(HANDSHAKE, *([bytes([byte]) for byte in message] if cut else [message]))
        self.next_key()

    def answer(self):
        got = b''
        try:
            while b'small\n' not in got:
                piece = self.tls.read(max=100000, min=1)
                if not piece:
                    return 'end'
                got += bytes(piece)
            return 'answer'
        except TLSRemoteAlert as e:
            return e.description
        except (TLSAbruptCloseError, ConnectionResetError):
            return 'cut'


def message(kind, body):
    return bytes([kind]) + len(body).to_bytes(3, 'big') + body


def updates(count, request):
    def run(client):
        for n in range(count):
            client.update(request)
            if n % 25 == 24:
                client.put(DATA, REQUEST)
                assert client.answer() == 'answer', n
        client.put(DATA, REQUEST)
    return run


def records(kind, *parts):
    return lambda client: client.put(kind, *parts)


def wire(data):
    return lambda client: client.sock.sendall(data)


def both(*steps):
    return lambda client: [step(client) for step in steps]


ask = records(DATA, REQUEST)
update = message(24, b'\0')
COMMON = [
    ('a request', 'answer', ask),
    ('one byte a record', 'answer', records(DATA, *[bytes([byte]) for byte in REQUEST])),
    ('32 empty records', 'answer', records(DATA, *[b''] * 32, REQUEST)),
    ('33 empty records', 10, records(DATA, *[b''] * 33)),
    ('empty records between data', 'answer',
     records(DATA, *[part for byte in REQUEST for part in (b'', bytes([byte]))])),
    ('change_cipher_spec', 10, records(CCS, b'\1')),
    *[(f'an alert of {n} bytes', 50, records(ALERT, bytes(n))) for n in (1, 3, 4)],
    ('close_notify', 'end', records(ALERT, b'\1\0')),
    ('a request behind close_notify', 'end', both(records(ALERT, b'\1\0'), ask)),
    ('user_canceled and a request', 'answer', both(records(ALERT, b'\1\x5a'), ask)),
    ('a fatal alert', 'cut', records(ALERT, b'\2\x28')),
]
TLS13 = COMMON + [
    *[(f'padding of {n}', 'answer', lambda client, n=n: client.pad(n)) for n in (1, 100, 16384 - len(REQUEST))],
    ('a key update', 'answer', both(Client.update, ask)),
    ('a key update in five records', 'answer', both(lambda client: client.update(cut=True), ask)),
    ('key updates with requests between', 'answer', updates(500, 0)),
    ('requested key updates with requests between', 'answer', updates(500, 1)),
    ('40 key updates', 10, lambda client: [client.update() for _ in range(40)]),
    ('the old key behind a key update', 20, both(records(HANDSHAKE, update), ask)),
    ('a key update of 2', 47, records(HANDSHAKE, message(24, b'\2'))),
    *[(f'a key update of {n} bytes', 50, records(HANDSHAKE, message(24, bytes(n)))) for n in (0, 2, 1000)],
    ('data amid a key update', 10, both(records(HANDSHAKE, update[:2]), ask)),
    ('an alert amid a key update', 10, both(records(HANDSHAKE, update[:2]), records(ALERT, b'\1\0'))),
    ('two key updates in a record', 10, records(HANDSHAKE, update * 2)),
    ('an empty handshake record', 10, records(HANDSHAKE, b'')),
    *[(f'a handshake message of type {n}', 10, records(HANDSHAKE, message(n, b'\0\0')))
      for n in (0, 1, 2, 4, 8, 11, 13, 14, 15, 20, 21, 67, 254)],
    *[(f'content of type {n}', 10, records(n, b'abc')) for n in (0, 24, 25, 99, 255)],
    ('plain change_cipher_spec', 10, wire(b'\x14\3\3\0\1\1')),
    ('a plain key update', 10, wire(b'\x16\3\3\0\5' + update)),
    ('a plain alert', 10, wire(b'\x15\3\3\0\2\1\0')),
    ('no record', 10, wire(b'\x80\x2e\1\3\1')),
    *[(f'{n} bytes that are no ciphertext', 20, wire(b'\x17\3\3' + n.to_bytes(2, 'big') + bytes(n)))
      for n in (0, 16, 17, 16640)],
    *[(f'a record of {n}', 22, wire(b'\x17\3\3' + n.to_bytes(2, 'big'))) for n in (16641, 65535)],
    ('a record of version 3.1', 70, wire(b'\x17\3\1\0\x20' + bytes(32))),
]
TLS12 = COMMON + [
    ('a key update', 10, records(HANDSHAKE, update)),
    ('another handshake', 100, both(records(HANDSHAKE, message(1, b'\3\3')), ask)),
]

differences = 0
ALL = (('TLS 1.3', (3, 4), TLS13), ('TLS 1.2', (3, 3), TLS12), ('at the end', (3, 4), COMMON[:1]))
for name, version, cases in ALL:
    for case, expected, run in cases:
        client = Client(version)
        run(client)
        found = client.answer()
        client.sock.close()
        if found != expected:
            differences += 1
            print(f'{name}: {case}: {found}, and not {expected}')
print(f'{len(TLS13) + len(TLS12) + 1} cases, {differences} differences')
sys.exit(differences > 0)
