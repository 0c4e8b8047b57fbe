//! Commands in backquotes before the first event: the programs that set a stack's tunables.
//!
//! ```text
//! text := command (('\n' | ';' | '&') command)* ; from '#' at the begin of a word to the end of the line is a comment
//! word := characters, with quotes as in name="a b", and $((2 * 1024))
//! ```
//!
//! | program | effect |
//! |---|---|
//! | `sysctl`, `set_sysctls.py` | its settings, see [`sysctl`] |
//! | `defaults.sh` | the values that scripts for Linux expect |
//! | `tc qdisc replace dev D root Q` | `fq` paces the connections, a plain queue does not |
//! | `ip link set dev D mtu N` | the link's MTU |
//!
//! A command without an effect is noted in the report, each one once.

use super::syntax::Line;
use super::sysctl::{self, Effect, Tunables};

/// Applies the commands in `text`. Returns a note for each of them that has no effect.
pub(super) fn apply(line: Line, text: &str, tunables: &mut Tunables) -> Vec<String> {
    let notes = commands(text).into_iter().filter_map(|c| run(&c, tunables));
    notes.map(|note| format!("line {line}: {note}")).collect()
}

/// Applies the commands in `text` that come when sockets are there already: those that set defaults of sockets to come.
pub(super) fn apply_later(line: Line, text: &str, tunables: &mut Tunables) -> Option<String> {
    let mut all_apply = true;
    for command in commands(text) {
        for word in command.iter().skip(1) {
            if let Some((name, value)) = word.split_once('=') {
                all_apply &= sysctl::is_of_sockets(name)
                    && sysctl::set(name, value, tunables) == Effect::Applied;
            }
        }
        all_apply &= command.first().is_some_and(|program| program == "sysctl");
    }
    (!all_apply).then(|| format!("line {line}: a command after the start has no effect"))
}

/// Runs a command. Returns a note if it has no effect.
fn run(command: &[String], tunables: &mut Tunables) -> Option<String> {
    let (program, args) = command.split_first()?;
    let done = match program.rsplit('/').next().unwrap_or(program) {
        "sysctl" | "set_sysctls.py" => return set(args, tunables),
        "defaults.sh" => {
            sysctl::set_linux_defaults(tunables);
            true
        }
        "tc" => choose_queue(args, tunables),
        // It was applied when the link was made.
        "ip" => mtu_of(command).is_some(),
        _ => false,
    };
    (!done).then(|| format!("the command `{}` has no effect", command.join(" ")))
}

/// Sets `name=value` for each argument. A note names those without an effect.
pub(super) fn set(args: &[String], tunables: &mut Tunables) -> Option<String> {
    let mut has_effect = |arg: &str| match arg.split_once('=') {
        Some((name, value)) => sysctl::set(name, value, tunables) != Effect::Unknown,
        None => matches!(arg, "-w" | "-q" | "-n" | "-e"),
    };
    let idle: Vec<&str> = args
        .iter()
        .map(String::as_str)
        .filter(|arg| !has_effect(arg))
        .collect();
    let verb = if idle.len() == 1 { "has" } else { "have" };
    (!idle.is_empty()).then(|| format!("{} {verb} no effect", idle.join(", ")))
}

/// Switches pacing on or off, as the queue requires that the command gives to the device. False for another command or
/// queue.
fn choose_queue(args: &[String], tunables: &mut Tunables) -> bool {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ["qdisc", "add" | "replace", "dev", _, "root", queue] = args.as_slice() else {
        return false;
    };
    tunables.tcp.pacing = match *queue {
        "fq" => true,
        "pfifo" | "bfifo" | "pfifo_fast" | "noqueue" => false,
        _ => return false,
    };
    true
}

/// The MTU that the last command in `text` gives to the link, if one does.
pub(super) fn link_mtu(text: &str) -> Option<u16> {
    let all = commands(text);
    all.iter().rev().find_map(|command| mtu_of(command))
}

fn mtu_of(command: &[String]) -> Option<u16> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ip", "link", "set", "dev", _, "mtu", mtu] => mtu.parse().ok(),
        _ => None,
    }
}

/// The words of each command.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut command) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((value, behind)) = arithmetic(rest) {
            word.get_or_insert_default().push_str(&value.to_string());
            rest = behind;
            continue;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => {
                rest = rest
                    .find('\n')
                    .and_then(|end| rest.get(end..))
                    .unwrap_or_default();
            }
            ('\n' | ';' | '&', None) => {
                command.extend(word.take());
                all.push(std::mem::take(&mut command));
            }
            (c, None) if c.is_whitespace() => command.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    command.extend(word);
    all.push(command);
    all.retain(|command| !command.is_empty());
    all
}

/// The value of a `$((...))` of sums and products at the begin of `text`, and the text behind it.
fn arithmetic(text: &str) -> Option<(i64, &str)> {
    let (inside, behind) = text.strip_prefix("$((")?.split_once("))")?;
    let product = |text: &str| {
        let factors = text.split('*').map(|n| n.trim().parse::<i64>().ok());
        factors.reduce(|a, b| a?.checked_mul(b?)).flatten()
    };
    let sum = inside.split('+').map(product);
    let sum = sum.reduce(|a, b| a?.checked_add(b?)).flatten()?;
    Some((sum, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(text: &str) -> (Vec<String>, mbuma::TcpConfig) {
        let mut tunables = Tunables::default();
        (apply(Line(7), text, &mut tunables), tunables.tcp)
    }

    #[test]
    fn a_comment_sets_nothing() {
        // Breaks when the words of a comment are executed.
        let text =
            "sysctl -e -q net.ipv4.tcp_sack=1 # net.ipv4.tcp_sack=0\n# sysctl net.ipv4.tcp_sack=0";
        let (notes, tcp) = notes(text);
        assert_eq!(notes, Vec::<String>::new());
        assert!(tcp.sack);
    }

    #[test]
    fn a_sum_of_products_is_computed_and_a_quote_holds_words_together() {
        // Breaks when a size that a script computes is not understood.
        let (notes, tcp) = notes(
            "set_sysctls.py /proc/sys/net/ipv4/tcp_rmem=\"4096 $(( 2*1024 )) $((15*1024*1024 + 1))\"",
        );
        assert_eq!(notes, Vec::<String>::new());
        let sizes = (tcp.recv_buffer, tcp.recv_buffer_max);
        assert_eq!(sizes, (1024, (15 << 20) + 1));
        assert_eq!(arithmetic("$((9223372036854775807*2))"), None);
    }

    #[test]
    fn each_command_without_an_effect_is_noted_once() {
        // Breaks when a command is ignored in silence, or each of its words is noted.
        let (notes, _) = notes(
            "ip route add 192.0.2.1 dev tun0; sysctl -q net.ipv4.tcp_nonsense=1 net.ipv4.tcp_sack=1 net.ipv4.tcp_more=2
             tc qdisc replace dev tun0 root pfifo limit 0",
        );
        assert_eq!(
            notes,
            [
                "line 7: the command `ip route add 192.0.2.1 dev tun0` has no effect",
                "line 7: net.ipv4.tcp_nonsense=1, net.ipv4.tcp_more=2 have no effect",
                "line 7: the command `tc qdisc replace dev tun0 root pfifo limit 0` has no effect",
            ]
        );
    }

    #[test]
    fn a_queue_that_paces_switches_pacing_on() {
        // Breaks when a script's queue has no effect on the stack, or when the defaults do not take it back.
        let fq = "tc qdisc replace dev tun0 root fq";
        let (_, tcp) = notes(&format!("../common/defaults.sh\n{fq}"));
        assert!(tcp.pacing);
        let (_, tcp) = notes(&format!("{fq} && ../../common/defaults.sh"));
        assert!(!tcp.pacing);
    }
}
