//! Templates with figures filled in: the status page, the summary, the overview of `netstat`.
//!
//! A template has names in double braces. A name is that of a figure ([`Figures::scalars`]), of a fact, or of a
//! [block](blocks) of lines.

mod blocks;
mod units;

use std::time::Duration;

use kern::Unit;

use super::figures::{Figures, Sample};
use crate::netstat::instances;

pub(super) use units::{size, span};

/// Fills in figures.
pub(super) struct Filler<'a> {
    figures: &'a Figures,
    scalars: Vec<Sample>,
}

impl Figures {
    /// Puts figures where `template` has their names.
    pub(super) fn fill(&self, template: &str) -> String {
        let filler = Filler::new(self);
        let mut out = String::with_capacity(template.len() * 2);
        let mut rest = template;
        while let Some((before, (name, after))) = next_name(rest) {
            out.push_str(before);
            out.push_str(&filler.named(name.trim()).unwrap_or_default());
            rest = after;
        }
        out + rest
    }
}

impl<'a> Filler<'a> {
    fn new(figures: &'a Figures) -> Filler<'a> {
        Filler {
            figures,
            scalars: figures.scalars(),
        }
    }

    /// The text for a name; `None` for an unknown name.
    fn named(&self, name: &str) -> Option<String> {
        let text = self.figure(name);
        text.or_else(|| self.fact(name))
            .or_else(|| blocks::named(self.figures, name))
    }

    fn figure(&self, name: &str) -> Option<String> {
        let sample = self.scalars.iter().find(|sample| sample.name == name)?;
        Some(match sample.series.unit {
            Unit::Count => sample.value.to_string(),
            Unit::Bytes => size(sample.value as u64),
            Unit::Seconds => span(sample.value),
        })
    }

    fn fact(&self, name: &str) -> Option<String> {
        let figures = self.figures;
        let guest = &figures.guest;
        Some(match name {
            "guest" => guest.to_string(),
            "ifname" => guest.ifname.to_string(),
            "gateway" => guest.each(|v4| v4.gateway, |v6| Some(v6.gateway)),
            "name_server" if figures.answers_names => {
                format!(", name server {}", guest.each(|v4| v4.dns, |v6| v6.dns))
            }
            "name_server" => String::new(),
            "isolation" => figures.isolation.to_string(),
            "mtu" => figures.mtu.to_string(),
            "pid" => instances::own_pid().to_string(),
            "version" => figures.version.to_owned(),
            "checks" => checks().to_owned(),
            "packets_dropped" => figures
                .drops
                .iter()
                .map(|d| d.packets)
                .sum::<u64>()
                .to_string(),
            "buffers_in_use" => size(figures.pool.bytes_used() as u64),
            "buffers_total" => size(figures.pool.bytes_total() as u64),
            "lock_waits" => lock_waits().0.to_string(),
            "lock_wait_time" => kern::duration_text(lock_waits().1),
            _ => return None,
        })
    }
}

/// The checks of this build, which cost time.
fn checks() -> &'static str {
    match (kern::witness::ENABLED, kern::invariant::ENABLED) {
        (true, true) => ", WITNESS, INVARIANTS",
        (true, false) => ", WITNESS",
        (false, true) => ", INVARIANTS",
        (false, false) => "",
    }
}

/// How often threads waited for locks of all classes, and for how long.
fn lock_waits() -> (u64, Duration) {
    let classes = kern::lock_stats().classes;
    let contended = classes.iter().map(|class| class.contended).sum();
    (contended, classes.iter().map(|class| class.waited).sum())
}

/// The text before the next name, the name, and the text after it.
fn next_name(template: &str) -> Option<(&str, (&str, &str))> {
    let (before, rest) = template.split_once("{{")?;
    Some((before, rest.split_once("}}")?))
}

#[cfg(test)]
mod tests;
