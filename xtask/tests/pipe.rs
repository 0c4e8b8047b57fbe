//! The program's output in a pipe.

use std::process::Command;

#[test]
fn a_reader_that_has_left_ends_it_quietly() {
    // Breaks if `cargo xtask counts | head` prints a panic.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let run = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("tidy")
        .current_dir(root)
        .stdout(writer)
        .output();
    let run = run.expect("the program starts");
    assert_eq!((run.status.code(), &run.stderr[..]), (Some(141), &[][..]));
}
