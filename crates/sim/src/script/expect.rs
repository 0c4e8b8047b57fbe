//! Compares a packet with the one that a script expects.

use super::options::{OptionsSpec, TcpOption, agree};
use super::packet::{SeenBody, SeenPacket};
use super::show;
use super::syntax::{Body, IpSpec, PacketSpec, TcpSpec};

/// How a segment meets an expectation.
#[derive(Debug, PartialEq)]
pub(super) enum Meeting {
    /// It is the packet of the line.
    Whole,
    /// It is the beginning of the line's packet: this is left.
    Part(TcpSpec),
    /// It is not; each difference.
    Differs(Vec<String>),
}

/// The differences that do not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leeway {
    /// The number of a SYN that begins a connection: the script chooses it.
    pub(super) number: bool,
    /// A missing PSH of a segment with data. Linux sets it on each large segment that the device then cuts; RFC 9293
    /// 3.9.1.2 (MUST-61) requires it only if no more data waits.
    pub(super) push: bool,
    /// Order and padding of options (RFC 9293 3.2).
    pub(super) order: bool,
    /// By how much the window may be smaller. A receiver holds its right edge until it can move by a whole segment (RFC
    /// 9293 3.8.6.2.2); FreeBSD moves it with each segment that it sends.
    pub(super) window: u16,
    /// A FIN that crossed the stack's own is acknowledged without that one (RFC 9293 figure 13); FreeBSD repeats its
    /// FIN.
    pub(super) crossed_fin: bool,
}

/// Compares a packet with an expectation. `segment` is the packet in the script's numbers.
pub(super) fn compare(
    want: &PacketSpec,
    got: &SeenPacket,
    segment: Option<&TcpSpec>,
    leeway: Leeway,
) -> Meeting {
    let mut wrong = ip(want.ip, got);
    match (&want.body, &got.body, segment) {
        (Body::Tcp(want), SeenBody::Tcp(_), Some(got)) => {
            let want = &without_repeated_fin(want, got, leeway);
            if let Some(rest) = part(want, got) {
                wrong.extend(acknowledges(want, got, leeway));
                wrong.extend(options(want, got, leeway));
                if wrong.is_empty() {
                    return Meeting::Part(rest);
                }
            }
            wrong.extend(tcp(want, got, leeway));
        }
        (Body::Udp(len), SeenBody::Udp { data, .. }, _) => {
            if *len != data.len() {
                wrong.push(format!("{} bytes of data, not {len}", data.len()));
            }
        }
        (Body::Icmp(want), SeenBody::Icmp { kind, rest }, _) => {
            if want.kind != *kind {
                wrong.push("another ICMP message".into());
            }
            let mtu = u16::from_be_bytes([rest[2], rest[3]]);
            if want.mtu.is_some_and(|want| want != mtu) {
                wrong.push(format!("the MTU is {mtu}"));
            }
        }
        _ => wrong.push("another kind of packet".into()),
    }
    match wrong.is_empty() {
        true => Meeting::Whole,
        false => Meeting::Differs(wrong),
    }
}

fn ip(want: IpSpec, got: &SeenPacket) -> Vec<String> {
    let mut wrong = Vec::new();
    if want.ecn.is_some_and(|ecn| !ecn.allows(got.tos & 3)) {
        wrong.push(format!("the ECN field is {}", got.tos & 3));
    }
    if want.tos.is_some_and(|tos| tos != got.tos) {
        wrong.push(format!("the traffic class is {:#x}", got.tos));
    }
    if want.ttl.is_some_and(|ttl| ttl != got.ttl) {
        wrong.push(format!("the time to live is {}", got.ttl));
    }
    wrong
}

/// The acknowledgement that the stack sends where the script expects its FIN once more.
fn without_repeated_fin(want: &TcpSpec, got: &TcpSpec, leeway: Leeway) -> TcpSpec {
    use super::flow::{ACK, FIN};
    let mut want = want.clone();
    let repeats = want.flags == FIN | ACK && want.len == 0 && want.seq.wrapping_add(1) == got.seq;
    if leeway.crossed_fin && repeats && got.flags == ACK {
        (want.flags, want.seq) = (ACK, got.seq);
    }
    want
}

/// The missing bytes of an expected segment may come in further segments; then only the last one has PSH and FIN.
fn part(want: &TcpSpec, got: &TcpSpec) -> Option<TcpSpec> {
    const LAST: u16 = super::flow::PSH | super::flow::FIN;
    let begins = want.seq == got.seq && (1..want.len).contains(&got.len);
    (begins && want.flags & !LAST == got.flags & !super::flow::PSH).then(|| TcpSpec {
        seq: want.seq.wrapping_add(got.len),
        len: want.len - got.len,
        ..want.clone()
    })
}

fn acknowledges(want: &TcpSpec, got: &TcpSpec, leeway: Leeway) -> Vec<String> {
    let mut wrong = Vec::new();
    if let (Some(want), Some(got)) = (want.ack, got.ack)
        && want != got
    {
        wrong.push(format!("ack {got}, not {want}"));
    }
    if let (Some(want), Some(got)) = (want.win, got.win)
        && !(want.saturating_sub(leeway.window)..=want).contains(&got)
    {
        wrong.push(format!("win {got}, not {want}"));
    }
    wrong
}

fn tcp(want: &TcpSpec, got: &TcpSpec, leeway: Leeway) -> Vec<String> {
    let mut wrong = Vec::new();
    let pushed = match leeway.push && got.len > 0 {
        true => got.flags | want.flags & super::flow::PSH,
        false => got.flags,
    };
    if want.flags != pushed {
        let (want, got) = (show::flags(want.flags), show::flags(got.flags));
        wrong.push(format!("flags {got}, not {want}"));
    }
    if want.seq != got.seq && !leeway.number && !want.any_seq {
        wrong.push(format!("seq {}, not {}", got.seq, want.seq));
    }
    if want.len != got.len {
        wrong.push(format!("{} bytes of data, not {}", got.len, want.len));
    }
    wrong.extend(acknowledges(want, got, leeway));
    if want.urg.is_some() && want.urg != got.urg {
        let got = got.urg.map_or("none".to_owned(), |n| n.to_string());
        wrong.push(format!("the urgent pointer is {got}"));
    }
    wrong.extend(options(want, got, leeway));
    wrong
}

fn options(want: &TcpSpec, got: &TcpSpec, leeway: Leeway) -> Option<String> {
    let (OptionsSpec::These(want), OptionsSpec::These(got)) = (&want.options, &got.options) else {
        return None;
    };
    // The runner checks the values of timestamps, because it knows the clock.
    let want: Vec<TcpOption> = want.iter().map(without_value).collect();
    (!agree(&want, got, !leeway.order)).then(|| "the options differ".to_owned())
}

fn without_value(option: &TcpOption) -> TcpOption {
    match option {
        TcpOption::Timestamps(_, ecr) => TcpOption::Timestamps(None, *ecr),
        other => other.clone(),
    }
}
