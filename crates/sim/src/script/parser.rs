//! From a script's text to its events: a recursive-descent parser.
//!
//! ```text
//! script  := setting* event*
//! event   := [when] (call | '<' packet | '>' packet | `command` | %{ code }%)
//! when    := time | '+' time | time '~' time | '+' time '~' ['+'] time | '*' ; call: when '...' ['+'] time
//! ```
//!
//! `call` parses calls, `segment` packets, `change` changes to their bytes. Invariants: no input panics, and nesting is
//! bounded.
//! Source: the language of packetdrill (USENIX ATC 2013) in both its dialects, Linux's and FreeBSD's.

use std::collections::BTreeSet;

use super::lexer::{Placed, SyntaxError, Token, tokens};
use super::preprocess::lines_that_count;
use super::syntax::{Action, Body, Line, Micros, ScriptEvent, Setting, TIME_MAX, When};

mod call;
mod change;
mod segment;

/// The settings and the events of a script.
pub(super) fn parse(
    text: &str,
    defines: &BTreeSet<String>,
) -> Result<(Vec<Setting>, Vec<ScriptEvent>), SyntaxError> {
    let text = lines_that_count(text, defines)?;
    let mut parser = Parser {
        text: &text,
        tokens: tokens(&text)?,
        at: 0,
    };
    let (mut settings, mut events) = (Vec::new(), Vec::new());
    while *parser.peek() != Token::End {
        match parser.setting() {
            Some(setting) => settings.push(setting),
            None => events.push(parser.event()?),
        }
    }
    Ok((settings, events))
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        let placed = self.tokens.get(self.at + ahead);
        placed.map_or(&Token::End, |placed| &placed.token)
    }

    fn line(&self) -> Line {
        let placed = self.tokens.get(self.at).or(self.tokens.last());
        placed.map_or(Line(1), |placed| placed.line)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(self.line(), message))
    }

    /// An error that names the expected text.
    fn wanted<T>(&self, what: &str) -> Result<T, SyntaxError> {
        self.error(format!("expected {what}, found {}", self.peek()))
    }

    /// Takes this sign if it comes next.
    fn accept(&mut self, sign: char) -> bool {
        let found = *self.peek() == Token::Sign(sign);
        self.at += usize::from(found);
        found
    }

    /// Takes this word if it comes next.
    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(w) if w == word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), SyntaxError> {
        match self.accept(sign) {
            true => Ok(()),
            false => self.wanted(&format!("'{sign}'")),
        }
    }

    fn word(&mut self, what: &str) -> Result<String, SyntaxError> {
        match self.peek().clone() {
            Token::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.wanted(what),
        }
    }

    /// A whole number that fits `T`.
    fn int<T: TryFrom<i64>>(&mut self, what: &str) -> Result<T, SyntaxError> {
        let Token::Int(n) = *self.peek() else {
            return self.wanted(what);
        };
        match T::try_from(n) {
            Ok(value) => {
                self.at += 1;
                Ok(value)
            }
            Err(_) => self.error(format!("{n} is out of range for {what}")),
        }
    }

    fn setting(&mut self) -> Option<Setting> {
        let line = self.line();
        let Token::Setting(name, value) = self.peek().clone() else {
            return None;
        };
        self.at += 1;
        Some(Setting { line, name, value })
    }

    fn event(&mut self) -> Result<ScriptEvent, SyntaxError> {
        let (when, until) = self.when()?;
        let line = self.line();
        let action = match self.peek().clone() {
            Token::Command(command) => {
                self.at += 1;
                Action::Command(command)
            }
            Token::Code(code) => {
                self.at += 1;
                Action::Code(code)
            }
            Token::Sign('<' | '>') if self.is_encapsulated() => {
                self.skip_line();
                Action::Lacks("encap".into())
            }
            Token::Sign('<') => {
                self.at += 1;
                let packet = self.packet()?;
                if matches!(&packet.body, Body::Tcp(spec) if spec.any_seq) {
                    let message = "a segment that comes in needs a sequence number";
                    return Err(SyntaxError::new(line, message));
                }
                Action::Inject(packet)
            }
            Token::Sign('>') => {
                self.at += 1;
                Action::Expect(self.packet()?)
            }
            Token::Word(_) => Action::Call(self.call()?),
            _ => return self.wanted("a time, a call, a packet or a command"),
        };
        if until.is_some() && !matches!(action, Action::Call(_)) {
            return Err(SyntaxError::new(line, "only a call can block (a...b)"));
        }
        Ok(ScriptEvent {
            line,
            when,
            until,
            action,
        })
    }

    /// Whether a packet lies in another one.
    fn is_encapsulated(&self) -> bool {
        matches!(self.peek_at(1), Token::Word(word) if word == "encap")
    }

    /// Skips the rest of the line.
    fn skip_line(&mut self) {
        let line = self.line();
        while *self.peek() != Token::End && self.line() == line {
            self.at += 1;
        }
    }

    /// The time of an event, and until when it blocks. An event without a time follows the one before at once.
    fn when(&mut self) -> Result<(When, Option<Micros>), SyntaxError> {
        if self.accept('*') {
            return Ok((When::Any, None));
        }
        let relative = self.accept('+');
        let Some(start) = self.time()? else {
            return match relative {
                true => self.wanted("a time"),
                false => Ok((When::Relative(0), None)),
            };
        };
        if self.accept('~') {
            let end = self.end_time()?;
            return Ok(match relative {
                true => (When::RelativeRange(start, end), None),
                false => (When::AbsoluteRange(start, end), None),
            });
        }
        let mut until = None;
        if *self.peek() == Token::Ellipsis {
            self.at += 1;
            until = Some(self.end_time()?);
        }
        Ok(match relative {
            true => (When::Relative(start), until),
            false => (When::Absolute(start), until),
        })
    }

    fn end_time(&mut self) -> Result<Micros, SyntaxError> {
        self.accept('+');
        match self.time()? {
            Some(time) => Ok(time),
            None => self.wanted("a time"),
        }
    }

    fn time(&mut self) -> Result<Option<Micros>, SyntaxError> {
        let time = match *self.peek() {
            Token::Micros(n) => Some(n),
            Token::Int(n) => match n.checked_mul(1_000_000) {
                Some(n) => Some(n),
                None => return self.error("this time is too far away"),
            },
            _ => return Ok(None),
        };
        if time.is_some_and(|n| n > TIME_MAX) {
            return self.error("this time is too far away");
        }
        self.at += 1;
        Ok(time)
    }
}
