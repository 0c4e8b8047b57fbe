//! The figures as people read them: the status page's template filled in, sizes and times in words.
//!
//! Called by: http, summary. Calls: nothing.
//! Locks: none.

use super::figures::{Drop, Figures, Zone};

impl Figures {
    /// Puts figures where `template` has their names in double braces.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() * 2);
        let mut rest = template;
        while let Some((before, (name, after))) = next_name(rest) {
            out.push_str(before);
            out.push_str(&self.named(name.trim()));
            rest = after;
        }
        out + rest
    }

    /// A figure as the page shows it; nothing for a name that there is not.
    fn named(&self, name: &str) -> String {
        let (c, g) = (&self.counters, &self.gauges);
        match name {
            "uptime" => span(self.uptime_s),
            "guest" => self.guest.addr.to_string(),
            "gateway" => self.guest.gateway.to_string(),
            "dns" => self.guest.dns.to_string(),
            "mtu" => self.mtu.to_string(),
            "active" => g.connections_active.to_string(),
            "out" => c.connections_out.to_string(),
            "in" => c.connections_in.to_string(),
            "refused" => c.connections_refused.to_string(),
            "bytes_up" => size(c.bytes_up),
            "bytes_down" => size(c.bytes_down),
            "flows_active" => g.flows_active.to_string(),
            "flows" => c.flows.to_string(),
            "datagrams_up" => c.datagrams_up.to_string(),
            "datagrams_down" => c.datagrams_down.to_string(),
            "pings" => c.pings.to_string(),
            "pings_answered" => c.pings_answered.to_string(),
            "received" => self.packets_received.to_string(),
            "delivered" => self.packets_delivered.to_string(),
            "retransmitted" => self.tcp.retransmitted_segments.to_string(),
            "giant" => self.giant_words(),
            "drops" => self.drop_rows(),
            "zones" => self.zone_rows(),
            _ => String::new(),
        }
    }

    fn giant_words(&self) -> String {
        let components = self.giant.components.iter();
        let under = components.filter(|c| !c.mp_safe).count();
        match (self.giant.over_all, under) {
            (true, _) => "the whole stack".to_owned(),
            (false, 0) => "nothing".to_owned(),
            (false, n) => format!("{n} components"),
        }
    }

    fn drop_rows(&self) -> String {
        let row = |d: &Drop| {
            let reason = d.reason.replace('_', " ");
            format!("<tr><th>{reason}</th><td>{}</td></tr>\n", d.packets)
        };
        match self.drops.is_empty() {
            true => "<tr><th>none</th><td>0</td></tr>\n".to_owned(),
            false => self.drops.iter().map(row).collect(),
        }
    }

    fn zone_rows(&self) -> String {
        let row = |z: &Zone| {
            format!(
                "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                z.name,
                z.used,
                z.free,
                size(z.bytes as u64),
                z.failures
            )
        };
        self.zones.iter().map(row).collect()
    }
}

/// What comes before the next name in double braces, the name, and what comes after it.
fn next_name(template: &str) -> Option<(&str, (&str, &str))> {
    let (before, rest) = template.split_once("{{")?;
    Some((before, rest.split_once("}}")?))
}

/// Bytes in the unit that suits them.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1000.0;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    format!("{scaled:.1} {unit}")
}

/// Seconds in the unit that suits them.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds:.2} s"),
        (0, _) => format!("{minutes} min {} s", whole % 60),
        _ => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests;
