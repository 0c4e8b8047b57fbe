use super::*;

#[test]
fn names_that_no_interface_can_have() {
    // Breaks if a name is cut to another one, or runs over the request.
    for name in ["", "sixteen-bytes-xx", "nul\0", &"x".repeat(99)] {
        let refused = request(name).map(|_| ()).expect_err(name);
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    }
    let fits = request("fifteen-bytes-x").expect("as long as can be");
    assert_eq!(fits.ifr_name[15], 0);
}

#[test]
fn the_mtu_of_an_interface() {
    // Breaks if another field of the kernel's answer is read.
    assert_eq!(mtu("lo").expect("each namespace has it"), 65_536);
    let none = mtu("no-such-device").expect_err("it is not there");
    assert_eq!(none.raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn the_version_in_a_release() {
    // Breaks if versions are compared as text, or if a kernel is taken for a newer one.
    assert_eq!(version_of("6.18.44-fc-v595"), Some((6, 18)));
    assert_eq!(version_of("6.3"), Some((6, 3)));
    assert_eq!(version_of("5.10.0+"), Some((5, 10)));
    assert_eq!(version_of("6"), None);
    assert_eq!(version_of("unknown"), None);
    assert!(version_of("6.12.1") > version_of("6.3.0"));
}
