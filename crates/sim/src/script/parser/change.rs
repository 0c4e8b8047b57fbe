//! Changes to a packet's bytes: `{rep tcp src_port 0x0B63; rep ipv4 ttl 1}`.
//!
//! ```text
//! changes := change (';' change)*
//! change  := 'rep' header field value | any other words
//! ```

use super::Parser;
use crate::script::header_field::HeaderField;
use crate::script::lexer::{SyntaxError, Token};
use crate::script::syntax::PacketChange;

impl Parser<'_> {
    /// The changes behind `{`, with its `}`.
    pub(super) fn changes(&mut self) -> Result<Vec<PacketChange>, SyntaxError> {
        let mut all = Vec::new();
        loop {
            all.push(self.change()?);
            if self.accept('}') {
                return Ok(all);
            }
            self.expect(';')?;
        }
    }

    fn change(&mut self) -> Result<PacketChange, SyntaxError> {
        if self.accept_word("rep") {
            let header = self.word("a header")?;
            let name = self.word("a field of the header")?;
            let Some(field) = HeaderField::named(&header, &name) else {
                return self.error(format!("{header} {name}: no such field of a header"));
            };
            let value = self.int("the value of a field")?;
            return match field.holds(value) {
                true => Ok(PacketChange::Replace { field, value }),
                false => self.error(format!("{value:#x} is too large for {header} {name}")),
            };
        }
        let from = self
            .tokens
            .get(self.at)
            .map_or(0, |placed| placed.span.start);
        let mut to = from;
        while !matches!(self.peek(), Token::Sign(';' | '}') | Token::End) {
            to = self
                .tokens
                .get(self.at)
                .map_or(to, |placed| placed.span.end);
            self.at += 1;
        }
        match self.text.get(from..to) {
            Some(text) if !text.is_empty() => Ok(PacketChange::Other(text.to_owned())),
            _ => self.wanted("a change to the packet"),
        }
    }
}
