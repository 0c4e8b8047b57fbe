//! Tests of the content of the guest's files.

use super::*;

#[test]
fn resolv_conf_keeps_words_about_names_only() {
    // Breaks when the guest asks the host's resolver, which it cannot reach, or loses its search list.
    let dns = IpAddr::from([10, 0, 2, 3]);
    let host = "# by hand\nnameserver 127.0.0.53\n nameserver ::1\nsearch a.example b.example\n\
                options edns0 ndots:2\nsortlist 1.2.3.4\ndomain example";
    let ours =
        "nameserver 10.0.2.3\nsearch a.example b.example\noptions edns0 ndots:2\ndomain example\n";
    assert_eq!(resolv_conf(dns, &[], host), ours);
    assert_eq!(resolv_conf(dns, &[], ""), "nameserver 10.0.2.3\n");
    let search = ["b.example".to_owned(), "c.example".to_owned()];
    let ours = "nameserver 10.0.2.3\nsearch b.example c.example\noptions edns0 ndots:2\n";
    assert_eq!(resolv_conf(dns, &search, host), ours);
}

#[test]
fn added_hosts_come_first() {
    // Breaks when a name that the host's file has as well keeps the host's address.
    let named = [
        (IpAddr::from([192, 0, 2, 7]), "db"),
        (IpAddr::from([10, 0, 2, 100]), "web"),
    ];
    let text = hosts(&named, "127.0.0.1 localhost db\n");
    assert_eq!(
        text,
        "192.0.2.7\tdb\n10.0.2.100\tweb\n127.0.0.1 localhost db\n"
    );
}
