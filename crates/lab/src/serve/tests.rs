//! The client reads answers as a browser would.

use super::case::{CASES, Case};
use super::client::length;

#[test]
fn only_a_whole_answer_counts() {
    // Breaks when an error page counts as the file, and a server that refuses everything is the fastest.
    let head = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 17";
    assert_eq!(length(head).ok(), Some(17));
    assert!(length(b"HTTP/1.1 404 Not Found\r\nContent-Length: 14").is_err());
    assert!(length(b"HTTP/1.1 200 OK\r\nServer: x").is_err());
}

#[test]
fn each_case_has_a_name_of_its_own() {
    // Breaks when a question finds another case.
    for case in CASES {
        assert_eq!(Case::find(case.name), Some(case));
    }
}
