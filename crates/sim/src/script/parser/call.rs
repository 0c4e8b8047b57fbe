//! ```text
//! call   := name '(' [expr (',' expr)*] ')' '=' expr [errno] ['(' note ')']
//! expr   := term ('|' term)*
//! term   := ['-'] int | name ['(' exprs ')'] | "text" | address | '...' | '[' exprs ']' | '{' fields '}'
//! field  := [name ['(' int ')'] '='] expr
//! ```

use super::Parser;
use crate::script::lexer::{SyntaxError, Token};
use crate::script::syntax::{Call, Expr, Field};

/// How deep structures may lie in each other.
const DEPTH_MAX: usize = 16;

impl Parser<'_> {
    pub(super) fn call(&mut self) -> Result<Call, SyntaxError> {
        let name = self.word("the name of a call")?;
        self.expect('(')?;
        let args = self.exprs(')', 0)?;
        self.expect('=')?;
        let returns = self.expr(0)?;
        let errno = match self.peek().clone() {
            Token::Word(word) if word.starts_with('E') => {
                self.at += 1;
                Some(word)
            }
            _ => None,
        };
        if self.accept('(') {
            self.note()?;
        }
        Ok(Call {
            name,
            args,
            returns,
            errno,
        })
    }

    /// Goes over a note, which may have brackets inside.
    fn note(&mut self) -> Result<(), SyntaxError> {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth -= 1,
                Token::End => return self.error("a note in brackets does not end"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Expressions up to `close`, which is taken too.
    fn exprs(&mut self, close: char, depth: usize) -> Result<Vec<Expr>, SyntaxError> {
        let mut all = Vec::new();
        if self.accept(close) {
            return Ok(all);
        }
        loop {
            all.push(self.expr(depth)?);
            if self.accept(close) {
                return Ok(all);
            }
            self.expect(',')?;
        }
    }

    fn expr(&mut self, depth: usize) -> Result<Expr, SyntaxError> {
        let first = self.term(depth)?;
        if *self.peek() != Token::Sign('|') {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept('|') {
            all.push(self.term(depth)?);
        }
        Ok(Expr::Or(all))
    }

    fn term(&mut self, depth: usize) -> Result<Expr, SyntaxError> {
        if depth > DEPTH_MAX {
            return self.error("structures lie too deep in each other");
        }
        if self.accept('-') {
            return Ok(Expr::Int(-self.int::<i64>("a number")?));
        }
        if self.accept('[') {
            return Ok(Expr::List(self.exprs(']', depth + 1)?));
        }
        if self.accept('{') {
            return Ok(Expr::Struct(self.fields(depth + 1)?));
        }
        let value = match self.peek().clone() {
            Token::Int(n) => Expr::Int(n),
            Token::Text(text) => Expr::Text(text),
            Token::Addr(addr) => Expr::Text(addr.to_string()),
            Token::Ellipsis => Expr::Any,
            Token::Word(name) => {
                self.at += 1;
                return match self.accept('(') {
                    true => Ok(Expr::Apply(name, self.exprs(')', depth + 1)?)),
                    false => Ok(Expr::Name(name)),
                };
            }
            _ => return self.wanted("a value"),
        };
        self.at += 1;
        Ok(value)
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, SyntaxError> {
        let mut all = Vec::new();
        if self.accept('}') {
            return Ok(all);
        }
        loop {
            all.push(self.field(depth)?);
            if self.accept('}') {
                return Ok(all);
            }
            self.expect(',')?;
        }
    }

    /// `name(n)=value` is a field too: the number says how many, which the value shows.
    fn field(&mut self, depth: usize) -> Result<Field, SyntaxError> {
        let value = self.expr(depth)?;
        let name = match &value {
            Expr::Name(name) | Expr::Apply(name, _) if *self.peek() == Token::Sign('=') => {
                Some(name.clone())
            }
            _ => None,
        };
        Ok(match name {
            None => Field { name, value },
            Some(_) => {
                self.at += 1;
                Field {
                    name,
                    value: self.expr(depth)?,
                }
            }
        })
    }
}
