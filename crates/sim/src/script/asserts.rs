//! `%{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd }%`: the part of Python that scripts use.
//!
//! ```text
//! block := line* ; line := 'assert' or [',' ...] | 'print' ... | name ['+' | '-' | '*' | '/'] '=' or | 'pass'
//! or    := and ('or' and)* ; and := not ('and' not)* ; not := 'not' not | comparison
//! comparison := bits (('==' | '!=' | '<' | '<=' | '>' | '>=') bits)* ; bits := sum (('|' | '&') sum)*
//! sum   := product (('+' | '-') product)* ; product := unary (('*' | '/' | '//' | '%') unary)*
//! unary := '-' unary | number | name | '(' or ')' | ('abs' | 'min' | 'max' | 'int') '(' or (',' or)* ')'
//! ```
//!
//! Every value is a number; truth is 1. Variables live from one block of a script to the next. Invariants: no input
//! panics, nesting is bounded.

use std::collections::BTreeMap;

/// How deep brackets may lie in each other.
const DEPTH_MAX: usize = 32;

/// Why a block does not hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AssertError {
    /// An assertion is false: its text, and the values of its names.
    False(String, String),
    /// This part of Python, or this name, is not known.
    Unknown(String),
}

/// The variables of a script.
pub(super) type Variables = BTreeMap<String, f64>;

/// Checks all lines of a block; `figure` gives the value of a name.
pub(super) fn check(
    block: &str,
    figure: &dyn Fn(&str) -> Option<f64>,
    variables: &mut Variables,
) -> Result<(), AssertError> {
    // A backslash at the end of a line joins it with the next one.
    let block = block.replace("\\\n", " ");
    for statement in block.split(['\n', ';']) {
        let text = statement.split('#').next().unwrap_or_default().trim();
        statement_holds(text, figure, variables)?;
    }
    Ok(())
}

fn statement_holds(
    text: &str,
    figure: &dyn Fn(&str) -> Option<f64>,
    variables: &mut Variables,
) -> Result<(), AssertError> {
    let mut eval = Eval {
        rest: text,
        figure,
        variables,
        used: Vec::new(),
        depth: 0,
    };
    let first = eval.peek_name().unwrap_or_default().to_owned();
    match first.as_str() {
        "" if text.is_empty() => Ok(()),
        "pass" | "print" | "import" => Ok(()),
        "assert" => {
            eval.name();
            let value = eval.or()?;
            // The text behind a comma is the message.
            eval.skip_blank();
            if !eval.rest.is_empty() && !eval.rest.starts_with(',') {
                return Err(eval.unknown());
            }
            let used: Vec<String> = eval
                .used
                .iter()
                .map(|(name, value)| format!("{name} = {value}"))
                .collect();
            match value != 0.0 {
                true => Ok(()),
                false => Err(AssertError::False(text.to_owned(), used.join(", "))),
            }
        }
        name => {
            eval.name();
            let value = eval.assigned(name, text)?;
            variables.insert(name.to_owned(), value);
            Ok(())
        }
    }
}

struct Eval<'a> {
    rest: &'a str,
    figure: &'a dyn Fn(&str) -> Option<f64>,
    variables: &'a Variables,
    /// The names that were looked up, with their values.
    used: Vec<(String, f64)>,
    depth: usize,
}

type Evaluated = Result<f64, AssertError>;

type Comparator = fn(&f64, &f64) -> bool;

fn truth(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

impl<'a> Eval<'a> {
    fn unknown(&self) -> AssertError {
        AssertError::Unknown(self.rest.trim().to_owned())
    }

    /// The new value of the variable `name`; the text goes on with the sign of the assignment.
    fn assigned(&mut self, name: &str, text: &str) -> Evaluated {
        let unknown = || AssertError::Unknown(text.to_owned());
        if name.is_empty() {
            return Err(unknown());
        }
        if self.take("=") {
            return self.or();
        }
        let signs = ["+=", "-=", "*=", "/="];
        let sign = signs.into_iter().find(|sign| self.take(sign));
        let sign = sign.ok_or_else(unknown)?;
        let (old, by) = (self.lookup(name)?, self.or()?);
        Ok(match sign {
            "+=" => old + by,
            "-=" => old - by,
            "*=" => old * by,
            _ => old / by,
        })
    }

    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes this sign if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        self.skip_blank();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn peek_name(&self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = rest.get(..len.unwrap_or(rest.len()))?;
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            .then_some(name)
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = self.peek_name()?;
        self.skip_blank();
        self.rest = self.rest.get(name.len()..).unwrap_or_default();
        Some(name)
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = self.peek_name() == Some(name);
        if found {
            self.name();
        }
        found
    }

    fn or(&mut self) -> Evaluated {
        let mut value = self.and()?;
        while self.take_name("or") {
            let other = self.and()?;
            value = if value != 0.0 { value } else { other };
        }
        Ok(value)
    }

    fn and(&mut self) -> Evaluated {
        let mut value = self.not()?;
        while self.take_name("and") {
            let other = self.not()?;
            value = if value == 0.0 { value } else { other };
        }
        Ok(value)
    }

    fn not(&mut self) -> Evaluated {
        let mut negate = false;
        while self.take_name("not") {
            negate = !negate;
        }
        let value = self.comparison()?;
        Ok(if negate { truth(value == 0.0) } else { value })
    }

    /// Comparisons may form a chain, as in `1 <= a < 5`.
    fn comparison(&mut self) -> Evaluated {
        let mut left = self.bits()?;
        let mut holds = None;
        loop {
            let Some(compare) = self.comparator() else {
                return Ok(holds.map_or(left, truth));
            };
            let right = self.bits()?;
            holds = Some(holds.unwrap_or(true) && compare(&left, &right));
            left = right;
        }
    }

    fn comparator(&mut self) -> Option<Comparator> {
        let all: [(&str, Comparator); 6] = [
            ("==", f64::eq),
            ("!=", f64::ne),
            ("<=", f64::le),
            (">=", f64::ge),
            ("<", f64::lt),
            (">", f64::gt),
        ];
        let found = all.into_iter().find(|(sign, _)| self.take(sign));
        found.map(|(_, compare)| compare)
    }

    /// `&` and `|` have the same precedence here, because scripts put brackets around a mixture.
    fn bits(&mut self) -> Evaluated {
        let mut value = self.sum()?;
        loop {
            let is_or = self.take("|");
            if !is_or && !self.take("&") {
                return Ok(value);
            }
            let (a, b) = (value as i64, self.sum()? as i64);
            value = if is_or { a | b } else { a & b } as f64;
        }
    }

    fn sum(&mut self) -> Evaluated {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Evaluated {
        let mut value = self.unary()?;
        loop {
            if self.take("*") {
                value *= self.unary()?;
            } else if self.take("//") {
                value = (value / self.unary()?).floor();
            } else if self.take("/") {
                value /= self.unary()?;
            } else if self.take("%") {
                value = value.rem_euclid(self.unary()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn unary(&mut self) -> Evaluated {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(AssertError::Unknown("too many brackets".into()));
        }
        let value = self.unary_inside();
        self.depth -= 1;
        value
    }

    fn unary_inside(&mut self) -> Evaluated {
        if self.take("-") {
            return Ok(-self.unary()?);
        }
        if self.take("(") {
            let value = self.or()?;
            return match self.take(")") {
                true => Ok(value),
                false => Err(self.unknown()),
            };
        }
        match self.name() {
            Some(name) if self.take("(") => self.function(name),
            Some(name) => self.lookup(name),
            None => self.literal(),
        }
    }

    fn function(&mut self, name: &str) -> Evaluated {
        let mut args = vec![self.or()?];
        while self.take(",") {
            args.push(self.or()?);
        }
        if !self.take(")") {
            return Err(self.unknown());
        }
        let all = args.iter().copied();
        match (name, args.as_slice()) {
            ("abs", [one]) => Ok(one.abs()),
            ("int", [one]) => Ok(one.trunc()),
            ("min", _) => Ok(all.fold(f64::INFINITY, f64::min)),
            ("max", _) => Ok(all.fold(f64::NEG_INFINITY, f64::max)),
            _ => Err(AssertError::Unknown(format!("the function {name}"))),
        }
    }

    fn lookup(&mut self, name: &str) -> Evaluated {
        let value = match name {
            "True" => Some(1.0),
            "False" => Some(0.0),
            name => self.variables.get(name).copied(),
        };
        let value = value.or_else(|| {
            let value = (self.figure)(name)?;
            self.used.push((name.to_owned(), value));
            Some(value)
        });
        value.ok_or_else(|| AssertError::Unknown(format!("the name {name}")))
    }

    fn literal(&mut self) -> Evaluated {
        self.skip_blank();
        let hex = self.rest.strip_prefix("0x");
        let digits = hex.unwrap_or(self.rest);
        let good = |c: char| match hex {
            Some(_) => c.is_ascii_hexdigit(),
            None => c.is_ascii_digit() || c == '.',
        };
        let len = digits.find(|c| !good(c)).unwrap_or(digits.len());
        let (text, rest) = digits.split_at(len);
        let value = match hex {
            Some(_) => u32::from_str_radix(text, 16).ok().map(f64::from),
            None => text.parse().ok(),
        };
        let value = value.ok_or_else(|| self.unknown())?;
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_joined_before_they_are_compared() {
        // Breaks when the flags of tcpi_options can't be put together.
        let figure = |name: &str| (name == "tcpi_options").then_some(11.0);
        for block in [
            "assert tcpi_options == (1 | 2 | 8)",
            "assert tcpi_options == 1 | 2 | 8",
            "assert tcpi_options & 4 == 0 and (tcpi_options & 8) != 0",
        ] {
            let result = check(block, &figure, &mut Variables::new());
            assert_eq!(result, Ok(()), "{block}");
        }
    }

    #[test]
    fn a_backslash_joins_lines() {
        // Breaks when an assertion over two lines, or the end of one before the next, is not understood.
        let mut variables = Variables::new();
        let figure = |_: &str| Some(7.0);
        let result = check(
            "assert x == \\\n 7; \\\n assert y > 8",
            &figure,
            &mut variables,
        );
        let Err(AssertError::False(text, _)) = result else {
            panic!("{result:?}");
        };
        assert_eq!(text, "assert y > 8");
    }

    #[test]
    fn a_variable_lives_on_and_can_be_changed() {
        // Breaks when a block forgets the variables of the one before, or an assignment with an operation is not known.
        let figure = |name: &str| (name == "tcpi_snd_cwnd").then_some(12.0);
        let mut variables = Variables::new();
        for block in [
            "cwnd = 10",
            "cwnd += 2; assert tcpi_snd_cwnd == cwnd",
            "cwnd -= 4\ncwnd *= 3\ncwnd /= 2\nassert cwnd == tcpi_snd_cwnd",
        ] {
            assert_eq!(check(block, &figure, &mut variables), Ok(()), "{block}");
        }
        for unknown in ["other += 1", "cwnd ^= 1", "= 3", "+= 1"] {
            let result = check(unknown, &figure, &mut variables);
            assert!(matches!(result, Err(AssertError::Unknown(_))), "{unknown}");
        }
    }
}
