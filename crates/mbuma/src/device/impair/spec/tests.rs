//! The emulator obeys the typed text.

use proptest::prelude::*;

use super::*;

fn link(text: &str) -> LinkConfig {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[test]
fn every_word_sets_what_it_names() {
    // Breaks when a unit is another than that of tc-netem, or a word sets another field.
    let all = "rate=20mbit,delay=40ms,jitter=500us,queue=2bdp,ecn=50p,burst=16kb,loss=1%,bursts=0.1%/25%,reorder=2%,\
               late=10ms,duplicate=0.5%,corrupt=0.01%,mtu=1400";
    let got = link(all);
    let ms = Duration::from_millis;
    assert_eq!(
        (got.rate_bps, got.burst_bytes, got.mtu),
        (20_000_000, 16_384, 1400)
    );
    assert_eq!(
        (got.delay, got.jitter),
        (ms(40), Duration::from_micros(500))
    );
    // 80 ms at 20 Mbit/s are 200 kB; 50 packets of 1400 bytes and their Ethernet headers.
    assert_eq!((got.queue_bytes, got.ecn_bytes), (400_000, Some(50 * 1414)));
    let faults = got.faults;
    assert_eq!(
        (faults.loss, faults.reorder, faults.duplicate),
        (0.01, 0.02, 0.005)
    );
    assert_eq!(
        (faults.corrupt, faults.late),
        (0.0001, Lateness::By(ms(10)))
    );
    assert_eq!(
        faults.burst.map(|b| (b.enter, b.leave, b.loss)),
        Some((0.001, 0.25, 1.0))
    );
}

#[test]
fn what_is_not_said_is_perfect() {
    // Breaks when a word has an effect on a field that it does not name, or a rate comes without a bounded queue.
    let late = Lateness::By(LATE);
    let mut want = LinkConfig::delay(Duration::from_millis(5));
    want.faults.late = late;
    assert_eq!(link("delay=5ms"), want);
    assert_eq!(link("rate=8mbit").queue_bytes, 20 * 1514);
    assert_eq!(link("rate=8mbit,delay=100ms").queue_bytes, 200_000);
}

#[test]
fn mistakes_are_named() {
    // Breaks when the parser accepts a mistake, or its message does not quote the mistake.
    for (text, says) in [
        ("", "`` is not of the form NAME=VALUE"),
        ("loss", "`loss` is not of the form NAME=VALUE"),
        ("loss=1", "`1` is no percentage, as in 0.5%"),
        ("loss=101%", "`101%` is no percentage, as in 0.5%"),
        ("loss=-1%", "`-1%` is no percentage"),
        ("rate=20mb", "`20mb` is no rate"),
        ("rate=0mbit", "`0mbit` is no rate"),
        ("delay=40", "`40` is no time"),
        ("delay=61s", "`61s` is no time"),
        ("delay=1.2.3s", "`1.2.3s` is no time"),
        ("rate=1mbit,queue=4", "`4` is no length of a queue"),
        ("queue=1bdp", "queue, ecn and burst need a rate"),
        ("bursts=1%", "`1%` is no pair of percentages"),
        ("mtu=67", "`67` is no MTU"),
        ("los=1%", "`los` is none of rate, burst"),
    ] {
        let error = text.parse::<LinkConfig>().expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// Links that can be written.
fn links() -> impl Strategy<Value = LinkConfig> {
    let times = (0..60_000_u64, 0..9_000_u64);
    let sizes = (
        0..2_000_u64,
        1..9_000_000_usize,
        prop::option::of(1..9_000_usize),
        68..=u16::MAX,
    );
    let chances = prop::array::uniform4(0..10_000_u32);
    let burst = prop::option::of((0..100_u32, 1..100_u32));
    (times, sizes, chances, burst).prop_map(|(times, sizes, chances, burst)| {
        let mut link = LinkConfig::PERFECT;
        link.delay = Duration::from_millis(times.0);
        link.jitter = Duration::from_micros(times.1);
        link.mtu = sizes.3;
        if sizes.0 > 0 {
            (link.rate_bps, link.queue_bytes, link.ecn_bytes) = (sizes.0 * 500, sizes.1, sizes.2);
        }
        let faults = &mut link.faults;
        faults.late = Lateness::By(LATE);
        let shares = chances.map(|n| f64::from(n) / 10_000.0);
        [
            faults.loss,
            faults.reorder,
            faults.duplicate,
            faults.corrupt,
        ] = shares;
        faults.burst = burst.map(|(enter, leave)| Burst {
            enter: f64::from(enter) / 100.0,
            leave: f64::from(leave) / 100.0,
            loss: 1.0,
        });
        link
    })
}

/// A link whose probabilities are whole millionths of a percent, so that nearly equal ones compare as equal.
fn rounded(mut link: LinkConfig) -> LinkConfig {
    let faults = &mut link.faults;
    let round = |share: &mut f64| *share = (*share * 1e8).round();
    let burst = faults
        .burst
        .iter_mut()
        .flat_map(|b| [&mut b.enter, &mut b.leave]);
    burst.for_each(round);
    let shares = [
        &mut faults.loss,
        &mut faults.reorder,
        &mut faults.duplicate,
        &mut faults.corrupt,
    ];
    shares.into_iter().for_each(round);
    link
}

proptest! {
    /// Breaks when a link is shown as another than it is.
    #[test]
    fn what_is_shown_reads_the_same(want in links()) {
        let shown = want.to_string();
        prop_assume!(shown != "perfect");
        prop_assert_eq!(rounded(link(&shown)), rounded(want), "{}", shown);
    }
}
