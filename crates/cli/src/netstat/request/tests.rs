//! Tests of the language between netstat and a gateway.

use super::*;

const ALL: [Section; 7] = [
    Section::Overview,
    Section::Connections,
    Section::Mbufs,
    Section::Protocols,
    Section::Zones,
    Section::Interfaces,
    Section::Locks,
];

#[test]
fn every_request_is_read_as_it_was_written() {
    // Breaks when the two ends of one build do not understand each other.
    for json in [false, true] {
        for sections in [&[][..], &[Section::Locks], &ALL] {
            let sections = sections.to_vec();
            let request = Request { json, sections };
            let line = request.line();
            assert!(line.len() < REQUEST_MAX, "{line}");
            assert_eq!(Request::parse(line.as_bytes()), Ok(Some(request)));
        }
    }
}

#[test]
fn a_request_may_come_in_pieces() {
    // Breaks when the gateway answers half a line, or takes it for a whole one.
    let line = b"{\"json\":false,\"sections\":[\"mbufs\",\"zones\"]}\n";
    for n in 0..line.len() {
        assert_eq!(Request::parse(&line[..n]), Ok(None), "{n}");
    }
    assert!(matches!(Request::parse(line), Ok(Some(_))));
}

#[test]
fn a_section_is_said_once() {
    // Breaks when one line makes the gateway send the same section thirty times.
    let parsed =
        Request::parse(b"{\"json\":true,\"sections\":[\"zones\",\"zones\",\"locks\",\"zones\"]}\n");
    let sections = vec![Section::Zones, Section::Locks];
    let json = true;
    assert_eq!(parsed, Ok(Some(Request { json, sections })));
}

#[test]
fn what_is_no_request_is_refused() {
    // Breaks when the gateway answers an invalid request, waits for its end for ever, or ends.
    let long = [b'a'; REQUEST_MAX];
    for (bytes, refusal) in [
        (&b"\n"[..], RequestError::Language),
        (b"GET / HTTP/1.1\r\n", RequestError::Language),
        (b"netstat/1 text zones\n", RequestError::Language),
        (b"{\"json\":true}\n", RequestError::Language),
        (
            b"{\"json\":true,\"sections\":[\"everything\"]}\n",
            RequestError::Language,
        ),
        (
            b"{\"json\":true,\"sections\":[],\"x\":1}\n",
            RequestError::Language,
        ),
        (b"\xff\xfe\n", RequestError::Language),
        (&long, RequestError::TooLong),
    ] {
        assert_eq!(Request::parse(bytes), Err(refusal), "{bytes:?}");
    }
    let mut late = long.to_vec();
    late.push(b'\n');
    assert_eq!(Request::parse(&late), Err(RequestError::TooLong));
}

#[test]
fn a_cut_answer_is_no_answer() {
    // Breaks when netstat does not notice that an mbuma ended before its answer was complete.
    let whole = answer(&Ok("two\nlines\n".to_owned()));
    assert_eq!(read_answer(&whole), Some(Ok("two\nlines\n".to_owned())));
    for n in 0..whole.len() {
        assert_eq!(read_answer(&whole[..n]), None, "{n}");
    }
    let refusal = Err("because".to_owned());
    assert_eq!(read_answer(&answer(&refusal)), Some(refusal));
    assert_eq!(read_answer(b"ok many\nbytes"), None);
    assert_eq!(read_answer(b"\xff\n"), None);
}
