//! Words, numbers and signs of a script, each with its line.
//!
//! Invariants: a token's span lies inside of the text; no input panics.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;

use super::syntax::Line;

/// An error in a script's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line of the error.
    pub line: Line,
    /// The error.
    pub message: String,
}

impl SyntaxError {
    pub(super) fn new(line: Line, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name.
    Word(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction, as microseconds; `.5` too.
    Micros(i64),
    /// An IPv4 address.
    Addr(Ipv4Addr),
    /// `"text"`, without the quotes.
    Text(String),
    /// Words in backticks.
    Command(String),
    /// `%{ ... }%`.
    Code(String),
    /// `--name=value` or `--name`.
    Setting(String, Option<String>),
    /// `...`.
    Ellipsis,
    /// Any other sign.
    Sign(char),
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "\"{word}\""),
            Self::Int(n) => write!(f, "{n}"),
            Self::Micros(n) => write!(f, "a time of {n} us"),
            Self::Addr(addr) => write!(f, "{addr}"),
            Self::Text(text) => write!(f, "the string {text:?}"),
            Self::Command(_) => f.write_str("a command in backticks"),
            Self::Code(_) => f.write_str("a %{ block"),
            Self::Setting(name, _) => write!(f, "the setting --{name}"),
            Self::Ellipsis => f.write_str("..."),
            Self::Sign(sign) => write!(f, "'{sign}'"),
            Self::End => f.write_str("the end of the script"),
        }
    }
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) line: Line,
    pub(super) span: Range<usize>,
}

/// All tokens of `text`; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, SyntaxError> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
    };
    let mut all = Vec::new();
    loop {
        lexer.skip_blank()?;
        let (start, line) = (lexer.at, Line(lexer.line));
        let token = lexer.token()?;
        let done = token == Token::End;
        all.push(Placed {
            token,
            line,
            span: start..lexer.at,
        });
        if done {
            return Ok(all);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(Line(self.line), message))
    }

    /// Goes over `len` bytes and counts their lines.
    fn take(&mut self, len: usize) -> &'a str {
        let taken = self.rest().get(..len).unwrap_or_default();
        self.line += taken.matches('\n').count() as u32;
        self.at += taken.len();
        taken
    }

    fn take_while(&mut self, good: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !good(c)).unwrap_or(rest.len());
        self.take(len)
    }

    /// Goes over white space and comments.
    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.take_while(char::is_whitespace);
            let rest = self.rest();
            if rest.starts_with("//") || rest.starts_with('#') {
                self.take_while(|c| c != '\n');
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.take(end + 2),
                    None => return self.error("a comment does not end"),
                };
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        match first {
            '"' => self.quoted('"').map(Token::Text),
            '`' => self.quoted('`').map(Token::Command),
            '%' if rest.starts_with("%{") => self.code(),
            '.' if rest.starts_with("...") => {
                self.take(3);
                Ok(Token::Ellipsis)
            }
            '-' if rest.starts_with("--") => self.setting(),
            '0'..='9' => self.number(),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            c if c.is_ascii_alphabetic() || c == '_' => {
                let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                Ok(Token::Word(word.to_owned()))
            }
            c => {
                self.take(c.len_utf8());
                Ok(Token::Sign(c))
            }
        }
    }

    /// Text up to the same quote; a backslash takes the next character as it is, and joins a line with the next one.
    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let mut chars = self.rest().char_indices().skip(1);
        let mut content = String::new();
        while let Some((i, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.take(i + 1);
                    return Ok(content);
                }
                '\\' => match chars.next() {
                    Some((_, '\n')) => content.push(' '),
                    next => content.extend(next.map(|(_, c)| c)),
                },
                c => content.push(c),
            }
        }
        self.error(format!("a {quote} is not closed"))
    }

    fn code(&mut self) -> Result<Token, SyntaxError> {
        match self.rest().find("}%") {
            None => self.error("a %{ block is not closed"),
            Some(end) => {
                let block = self.take(end + 2);
                let inner = block.get(2..end).unwrap_or_default();
                Ok(Token::Code(inner.to_owned()))
            }
        }
    }

    fn setting(&mut self) -> Result<Token, SyntaxError> {
        self.take(2);
        let name = self
            .take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
            .to_owned();
        if name.is_empty() {
            return self.error("-- needs the name of a setting");
        }
        let value = self.rest().starts_with('=').then(|| {
            self.take(1);
            self.take_while(|c| !c.is_whitespace()).to_owned()
        });
        Ok(Token::Setting(name, value))
    }

    /// A whole number, a fraction, a hexadecimal number, or an IPv4 address.
    fn number(&mut self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or(rest.strip_prefix("0X")) {
            let len = hex.find(|c: char| !c.is_ascii_hexdigit());
            let digits = self.take(2 + len.unwrap_or(hex.len()));
            let value = i64::from_str_radix(&digits[2..], 16);
            return value
                .map(Token::Int)
                .or_else(|_| self.error(format!("{digits} is no number")));
        }
        let mut end = digits(rest, 0);
        let mut dots = 0;
        while rest[end..].starts_with('.') && digits(rest, end + 1) > end + 1 {
            end = digits(rest, end + 1);
            dots += 1;
        }
        let text = self.take(end);
        let token = match dots {
            0 => text.parse().ok().map(Token::Int),
            1 => micros(text).map(Token::Micros),
            _ => text.parse().ok().map(Token::Addr),
        };
        token.map_or_else(|| self.error(format!("{text} is no number")), Ok)
    }
}

/// Where the digits that begin at `from` end.
fn digits(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let len = rest.find(|c: char| !c.is_ascii_digit());
    from + len.unwrap_or(rest.len())
}

/// Seconds with a fraction as microseconds, exactly: digits behind the sixth are cut off.
fn micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.')?;
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
    whole.checked_mul(1_000_000)?.checked_add(six.parse().ok()?)
}
