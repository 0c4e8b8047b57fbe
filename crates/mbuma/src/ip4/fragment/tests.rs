use super::*;

fn copied(options: &[u8]) -> Vec<u8> {
    let (bytes, len) = copied_options(options);
    bytes[..len].to_vec()
}

/// Breaks if a fragment carries an option that belongs to the first only, or lacks one that does not.
#[test]
fn options_that_every_fragment_carries() {
    // Record route (7), padding, router alert (148), a security option (130), the end.
    let options = [7, 3, 4, 1, 148, 4, 0, 0, 130, 3, 9, 0, 148, 4];
    assert_eq!(copied(&options), [148, 4, 0, 0, 130, 3, 9]);
    assert_eq!(copied(&[]), []);
    for cut in 0..options.len() {
        // A header that ends in the middle of an option is no reason to panic.
        copied(&options[..cut]);
    }
    for bad in [[148, 0], [148, 1], [148, 255], [7, 0]] {
        copied(&bad);
    }
}
