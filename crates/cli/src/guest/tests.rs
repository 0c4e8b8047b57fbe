//! Tests of what the guest finds in its files.

use super::*;

#[test]
fn resolv_conf_keeps_words_about_names_only() {
    // Breaks when the guest asks the host's resolver, which it cannot reach, or loses its search list.
    let dns = Addressing::DEFAULT.dns;
    let host = "# by hand\nnameserver 127.0.0.53\n nameserver ::1\nsearch a.example b.example\n\
                options edns0 ndots:2\nsortlist 1.2.3.4\ndomain example";
    let ours =
        "nameserver 10.0.2.3\nsearch a.example b.example\noptions edns0 ndots:2\ndomain example\n";
    assert_eq!(resolv_conf(dns, host), ours);
    assert_eq!(resolv_conf(dns, ""), "nameserver 10.0.2.3\n");
}
