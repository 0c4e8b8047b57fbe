use super::super::figures::tests::figures;

#[test]
fn prometheus_can_read_it() {
    // Breaks when one line is malformed: Prometheus then drops the whole answer.
    let text = figures().to_prometheus();
    let mut declared = Vec::new();
    let mut is_histogram = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            is_histogram = kind == "histogram";
            assert!(!declared.contains(&name), "declared twice: {line}");
            declared.push(name);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let name = series.split('{').next().expect("a name");
            let parts = ["_bucket", "_sum", "_count"];
            let part = parts.iter().find_map(|part| name.strip_suffix(part));
            let name = part.filter(|_| is_histogram).unwrap_or(name);
            assert_eq!(declared.last(), Some(&name), "not under its type: {line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
        }
    }
    for line in [
        concat!(
            "mbuma_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
        "mbuma_connections_total{by=\"guest\"} 7",
        "mbuma_drops_total{reason=\"ip_bad_checksum\"} 2",
        "mbuma_tcp_payload_bytes_total{direction=\"up\"} 1500000",
        "mbuma_frames_total{interface=\"tap0\",direction=\"in\"} 12",
        "mbuma_uptime_seconds 1.5",
        "mbuma_buffers_used{zone=\"mbuf\"} 0",
        "mbuma_tcp_connection_rtt_seconds_bucket{le=\"0.01\"} 3",
        "mbuma_tcp_connection_rtt_seconds_bucket{le=\"+Inf\"} 4",
        "mbuma_tcp_connection_rtt_seconds_sum 1.5",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}
