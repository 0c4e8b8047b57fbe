//! `--impair`: the faults of the link between the guest and the stack, in each direction.

use std::fmt;
use std::str::FromStr;

use mbuma::device::impair::LinkConfig;
use serde::{Serialize, Serializer};

/// Both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Impairment {
    /// From the guest.
    pub(crate) up: LinkConfig,
    /// To the guest.
    pub(crate) down: LinkConfig,
    /// The seed of the faults; random if none is given.
    pub(crate) seed: Option<u64>,
}

/// The directions that words are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    Both,
    Up,
    Down,
}

impl FromStr for Impairment {
    type Err = String;

    /// A word before `up:` or `down:` is for both directions; one behind it is for that direction, and replaces the
    /// other.
    fn from_str(text: &str) -> Result<Impairment, String> {
        let (mut up, mut down, mut seed) = (Vec::new(), Vec::new(), None);
        let mut ways = Ways::Both;
        let mut said = Vec::new();
        for word in text.split(',').map(str::trim) {
            let word = match word.split_once(':') {
                Some(("up", rest)) => (ways = Ways::Up, rest).1,
                Some(("down", rest)) => (ways = Ways::Down, rest).1,
                Some((other, _)) => return Err(format!("`{other}:` is neither up: nor down:")),
                None => word,
            };
            let key = word.split_once('=').map_or(word, |(key, _)| key);
            if said.contains(&(ways, key)) {
                return Err(format!("`{key}` comes twice for the same direction"));
            }
            said.push((ways, key));
            if let Some(number) = word.strip_prefix("seed=") {
                let number = number.parse();
                seed = Some(number.map_err(|_| format!("`{word}`: a seed is a number"))?);
                continue;
            }
            if ways != Ways::Down {
                up.push(word);
            }
            if ways != Ways::Up {
                down.push(word);
            }
        }
        if up.is_empty() && down.is_empty() {
            return Err("it says nothing about the link".to_owned());
        }
        let (up, down) = (link(&up)?, link(&down)?);
        Ok(Impairment { up, down, seed })
    }
}

/// The link of one direction; without faults if no word is for it.
fn link(words: &[&str]) -> Result<LinkConfig, String> {
    if words.is_empty() {
        return Ok(LinkConfig::PERFECT);
    }
    // `seed` is a word of the command line only.
    let keys = words.iter().filter_map(|word| word.split_once('='));
    for (key, _) in keys {
        if !LinkConfig::KEYS.contains(&key) {
            let keys = LinkConfig::KEYS.join(", ");
            return Err(format!("`{key}` is none of {keys}, seed"));
        }
    }
    let parsed = words.join(",").parse::<LinkConfig>();
    parsed.map_err(|error| error.to_string())
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "up:{},down:{}", self.up, self.down)
    }
}

impl Serialize for Impairment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Impairment, String> {
        text.parse()
    }

    fn link(text: &str) -> LinkConfig {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn words_are_for_the_direction_before_them() {
        // Breaks when a direction gets the words of the other, or loses those of both.
        let both = read("rate=20mbit,delay=40ms").expect("it is right");
        assert_eq!(
            (both.up, both.down),
            (link("rate=20mbit,delay=40ms"), both.up)
        );
        let each = read("delay=5ms,up:rate=2mbit,loss=1%,down:rate=20mbit,seed=7");
        let each = each.expect("it is right");
        assert_eq!(each.up, link("delay=5ms,rate=2mbit,loss=1%"));
        assert_eq!(each.down, link("delay=5ms,rate=20mbit"));
        assert_eq!(each.seed, Some(7));
        let both = read("delay=5ms,loss=1%,up:delay=9ms").expect("it is right");
        assert_eq!(both.up, link("delay=9ms,loss=1%"));
        assert_eq!(both.down, link("delay=5ms,loss=1%"));
        let one = read("down:loss=3%").expect("it is right");
        assert_eq!((one.up, one.down), (LinkConfig::PERFECT, link("loss=3%")));
    }

    #[test]
    fn mistakes_are_named() {
        // Breaks when a mistake passes, or the message does not name it.
        for (text, says) in [
            ("", "`` is not of the form NAME=VALUE"),
            ("seed=1", "it says nothing"),
            ("seed=x,loss=1%", "a seed is a number"),
            ("delai=5ms", "`delai` is none of rate, "),
            ("delai=5ms", ", mtu, seed"),
            ("left:loss=1%", "`left:` is neither up: nor down:"),
            ("up:loss=1", "`1` is no percentage"),
            ("delay=1ms,down:", "`` is not of the form"),
            ("delay=1ms,delay=2ms", "`delay` comes twice"),
            ("up:loss=1%,down:loss=2%,loss=3%", "`loss` comes twice"),
            ("seed=1,loss=1%,seed=2", "`seed` comes twice"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
