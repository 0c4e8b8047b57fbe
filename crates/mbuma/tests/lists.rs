//! The test lists of FreeBSD (ktls_test, ssl_sendfile, sendfile, socket_splice), OpenBSD (sosplice) and Linux (tls),
//! and the faults that such code had elsewhere: which test of ours shows each clause.
//!
//! Clauses about arguments that a type of ours excludes have no test: bad descriptors and pointers, negative offsets
//! and limits, sockets that are no streams, TLS on a listener, suites without an AEAD, a second start of TLS.

use std::fs;
use std::path::Path;

const UNIT: &str = "mbuma/src/tls/tests.rs";
const OTHERS: &str = "mbuma/src/tls/tests/others_bugs.rs";
const CIPHERS: &str = "mbuma/src/tls/aws_lc/tests.rs";
const TLS: &str = "mbuma/tests/tls";
const FILES: &str = "mbuma/tests/tls/files.rs";
const PLAIN: &str = "mbuma/src/socket/send_file/tests.rs";
const SIM: &str = "sim/tests/tls.rs";
const SPLICE: &str = "sim/tests/splice/main.rs";
const ENDS: &str = "sim/tests/splice/ends.rs";

/// A clause's name in its list, a directory or a file below `crates`, and the test there.
type Clause = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const KTLS: &[Clause] = &[
    ("transmit_short, transmit_long", CIPHERS, "every_suite_and_length_comes_back"),
    ("transmit_control", UNIT, "keys_change_in_the_order_of_the_stream"),
    ("receive_short, receive_long", TLS, "rustls_reads_what_we_send_and_we_read_what_it_sends"),
    ("receive_bad_data, mac, major, minor, type (1.3)", UNIT, "a_wrong_record_ends_the_stream_with_its_alert"),
    ("the same, bad_iv, short_header (1.2)", OTHERS, "a_wrong_record_of_tls_1_2_ends_the_stream"),
    ("receive_truncated_record", TLS, "a_stream_that_is_cut_off_is_told_from_one_that_ends"),
    ("receive_small_record, oversized_record", UNIT, "a_wrong_record_ends_the_stream_with_its_alert"),
    ("receive_short_padded, long_padded", UNIT, "padding_is_taken_off"),
    ("each suite of both versions", TLS, "every_suite_of_both_versions_carries_data_both_ways"),
    ("invalid keys", CIPHERS, "a_key_of_another_length_is_refused"),
];

#[rustfmt::skip]
const SENDFILE: &[Clause] = &[
    ("ssl: basic, random, eagain_vs_eof", FILES, "random_ranges_arrive_through_a_full_buffer"),
    ("ssl: truncate, grow, beyond_eof", FILES, "a_file_that_changes_its_length_under_a_full_buffer_is_not_padded"),
    ("fd_positive_file, _shm, hdtr_positive, IPv4, IPv6", PLAIN, "a_file_arrives_between_its_header_and_trailer"),
    ("flags: NODISKIO", PLAIN, "a_thread_that_must_not_wait_sends_what_another_has_read"),
    ("flags: USER_READAHEAD", PLAIN, "reading_ahead_finds_a_short_file"),
    ("sbytes_positive", PLAIN, "a_full_buffer_takes_a_part_and_then_nothing"),
    ("sbytes of 0", PLAIN, "an_empty_range_sends_its_header_alone"),
    ("offset beyond the end", PLAIN, "a_range_beyond_the_end_ends_the_connection"),
    ("a socket that sends nothing more", PLAIN, "nothing_is_sent_behind_the_end"),
    ("io_fail_sync", PLAIN, "a_file_that_cannot_be_read_is_an_error"),
    ("io_fail_async", PLAIN, "a_file_that_is_cut_short_ends_the_connection"),
];

#[rustfmt::skip]
const SPLICES: &[Clause] = &[
    ("basic, throughput, inet6, v4v6", SPLICE, "every_byte_is_moved_and_no_program_is_woken_for_it"),
    ("kevent: no readiness", SPLICE, "nothing_moves_after_stop"),
    ("error: EBUSY", SPLICE, "a_direction_is_spliced_once"),
    ("error: ELOOP, loop", SPLICE, "a_loop_is_refused"),
    ("error: ENOTCONN, reset", ENDS, "a_reset_that_came_before_the_splice_is_passed_on"),
    ("error: EPIPE", ENDS, "a_sink_that_takes_nothing_more_ends_the_splice"),
    ("limit_bytes, max, maxcopy", SPLICE, "the_maximum_is_exact"),
    ("limit_timeout, idle, traffic longer than the idle time", SPLICE, "the_idle_time_begins_anew_at_each_move"),
    ("max-time", ENDS, "both_limits_hold_at_once"),
    ("max-sleep: bytes that were there before", SPLICE, "what_was_received_before_is_moved_too"),
    ("nonblock, smallbuf, smallrcv, smallsnd, sleep-server", SPLICE, "a_sink_that_was_full_is_found_again"),
    ("window of zero", SPLICE, "a_server_that_does_not_read_stops_the_client"),
    ("resplice", SPLICE, "a_splice_may_be_made_again_and_counts_anew"),
    ("unsplice", ENDS, "a_stop_amid_the_stream_loses_and_doubles_nothing"),
    ("close of a side", SPLICE, "a_dropped_end_stops_the_splice"),
    ("relay, reverse, reverse-long", SPLICE, "a_relay_moves_both_ways"),
    ("relay-read-eof", ENDS, "an_end_that_came_before_the_splice_is_passed_on"),
    ("an end that is not passed on", SPLICE, "the_program_keeps_the_end_unless_it_is_passed_on"),
    ("reset amid the stream", SPLICE, "a_reset_is_passed_on_as_a_reset"),
    ("server-abort", SPLICE, "a_sink_that_fails_ends_the_splice"),
    ("oobinline", SPLICE, "urgent_data_is_moved_in_its_place"),
    ("scapy: set before the drain is connected", SPLICE, "a_splice_may_be_made_before_its_ends_are_connected"),
    ("inet-unix, unix", "sim/tests/splice/unix.rs", "every_byte_is_moved_and_no_program_is_woken_for_it"),
    ("TLS", TLS, "a_relay_ends_tls_and_passes_every_byte_and_end"),
];

#[rustfmt::skip]
const LINUX_TLS: &[Clause] = &[
    ("sendfile in parts, send_then_sendfile", FILES, "files_of_any_alignment_arrive_between_header_and_trailer"),
    ("data_control_data", UNIT, "a_handshake_message_may_be_cut_and_tickets_may_follow_each_other"),
    ("splice of data and control records", TLS, "a_relay_ends_tls_and_passes_every_byte_and_end"),
    ("bad_rec, bad_auth", UNIT, "a_wrong_record_ends_the_stream_with_its_alert"),
    ("poll on a record that is not whole", TLS, "a_record_that_waits_for_a_buffer_is_not_the_end"),
    ("rekey", TLS, "both_sides_change_their_keys"),
    ("rekey_fail", UNIT, "records_under_the_old_key_fail_behind_a_key_update"),
    ("records of length zero", UNIT, "records_without_data_are_bounded"),
];

#[rustfmt::skip]
const FAULTS: &[Clause] = &[
    ("SA-26:26: decrypted in place", UNIT, "opening_never_writes_to_received_bytes"),
    ("SA-26:93, SA-10:07", "mbuf/tests/packets/read_only.rs", "lent_storage_is_read_only_behind_each_operation"),
    ("Tempesta #1217: encrypted in place", UNIT, "sealing_never_writes_to_its_source"),
    ("SA-26:67: search of the inner type", UNIT, "padding_is_taken_off"),
    ("SA-26:46: index over empty mbufs", OTHERS, "pieces_without_bytes_are_no_pieces_of_a_record"),
    ("records behind a failed tag", UNIT, "a_wrong_record_ends_the_stream_with_its_alert"),
    ("SA-13:11: length beyond the file", PLAIN, "a_range_beyond_the_end_ends_the_connection"),
    ("openssl#18650: a file that changes", SIM, "every_byte_arrives_over_bad_wires_and_no_record_is_sealed_twice"),
    ("opnsense/src#296: count of accepted bytes", PLAIN, "the_stream_equals_the_file"),
    ("records of a connection that dies", SIM, "a_connection_that_is_reset_gives_a_clear_error_and_all_buffers_back"),
    ("a TLS sink that is not recognized", TLS, "a_program_reads_and_writes_nothing_while_a_splice_does"),
    ("idle time as a lifetime", SPLICE, "the_idle_time_begins_anew_at_each_move"),
    ("false ELOOP", SPLICE, "an_echo_of_its_own_is_no_loop"),
    ("unsplice during the first move", SPLICE, "nothing_moves_after_stop"),
    ("dae#1115: a tail that is held back", SPLICE, "the_tail_of_a_move_is_not_held_back"),
    ("sozu#1323: lost readiness", SPLICE, "a_sink_that_was_full_is_found_again"),
    ("haproxy#3450: KeyUpdate in a splice", TLS, "a_relay_ends_tls_and_passes_every_byte_and_end"),
    ("CVE-2026-64025: bytes before the switch to TLS", TLS, "alpn_and_early_data_of_the_client_are_kept"),
];

/// The texts of a file, or of the files of a directory.
fn texts(path: &Path) -> String {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    };
    let files = entries.map(|entry| entry.expect("a file").path());
    files
        .filter(|file| file.is_file())
        .map(|file| texts_of(&file))
        .collect()
}

fn texts_of(file: &Path) -> String {
    match file.extension().is_some_and(|extension| extension == "rs") {
        true => texts(file),
        false => String::new(),
    }
}

#[test]
fn each_clause_has_its_test() {
    // Breaks when a test of the lists is removed or gets another name, and a clause is shown by none.
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !crates.join("sim").is_dir() {
        return; // A package, without the other crates.
    }
    let lists = [KTLS, SENDFILE, SPLICES, LINUX_TLS, FAULTS];
    let all: Vec<&Clause> = lists.into_iter().flatten().collect();
    let is_there =
        |(_, place, test): &&&Clause| texts(&crates.join(place)).contains(&format!("fn {test}("));
    let missing: Vec<_> = all.iter().filter(|clause| !is_there(clause)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(all.len(), 71);
}
