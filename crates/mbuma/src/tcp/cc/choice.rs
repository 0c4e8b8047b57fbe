//! The choice of a connection's algorithm: for a stack ([`TcpConfig::congestion`](crate::TcpConfig::congestion)), and
//! for a socket ([`TcpStream::set_congestion`](crate::TcpStream::set_congestion)).

use std::fmt;
use std::str::FromStr;

use super::{Algorithm, Cc, Cubic, Reno};

/// A choice of congestion control.
///
/// A custom algorithm is a type that implements [`Algorithm`]:
/// ```
/// use mbuma::congestion::{Algorithm, CongestionControl, CongestionEvent, RateSample, Window};
///
/// /// Always the same window: for a link whose capacity is reserved.
/// #[derive(Debug)]
/// struct Fixed;
///
/// impl Algorithm for Fixed {
///     fn name(&self) -> &'static str {
///         "fixed"
///     }
///     fn on_ack(&mut self, w: &mut Window, _: &RateSample) {
///         w.cwnd = 100 * w.mss;
///     }
///     fn on_congestion(&mut self, w: &mut Window, _: &CongestionEvent) {
///         w.ssthresh = 100 * w.mss;
///     }
///     fn on_undo(&mut self, _: &mut Window, _: kern::Time) {}
/// }
///
/// let mut config = mbuma::Config::from_system();
/// config.tcp.congestion = CongestionControl::Custom(|| Box::new(Fixed));
/// ```
#[doc(alias = "TCP_CONGESTION")]
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub enum CongestionControl {
    /// [`Reno`]: RFC 5681.
    Reno,
    /// [`Cubic`]: RFC 9438, with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// [`Bbr`](super::Bbr): BBRv3 (draft-ietf-ccwg-bbr), which does not react to losses below 2 %. Experimental: it may
    /// take more than its share beside other flows.
    Bbr,
    /// An algorithm of the embedder's own. The function makes the state of one connection.
    Custom(fn() -> Box<dyn Algorithm>),
}

impl CongestionControl {
    /// The names of the algorithms that are built in.
    pub const NAMES: [&str; 3] = ["reno", "cubic", "bbr"];
}

/// No built-in algorithm has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control: there are {}", CongestionControl::NAMES.join(", "))]
pub struct UnknownCongestionControl;

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "reno" => Ok(Self::Reno),
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            _ => Err(UnknownCongestionControl),
        }
    }
}

/// The name, as it is parsed; `custom` for an embedder's own.
impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Custom(_) => "custom",
        })
    }
}

impl Cc {
    /// The state of a new connection.
    pub(crate) fn new(choice: CongestionControl) -> Self {
        match choice {
            CongestionControl::Reno => Self::Reno(Reno::default()),
            CongestionControl::Cubic => Self::Cubic(Cubic::default()),
            CongestionControl::Bbr => Self::Bbr(Box::default()),
            CongestionControl::Custom(make) => Self::Custom(make()),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Breaks when a name that the tool offers is not understood, or names another algorithm.
    #[test]
    fn each_algorithm_is_found_by_its_name() {
        for name in CongestionControl::NAMES {
            let choice: CongestionControl = name.parse().unwrap();
            assert_eq!(choice.to_string(), name);
            assert_eq!(Cc::new(choice).name(), name);
        }
        assert!("bbr2".parse::<CongestionControl>().is_err());
    }
}
