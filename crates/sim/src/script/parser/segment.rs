//! Packets: `[ect0] P. 1:1001(1000) ack 1 win 257 <nop,nop,TS val 1 ecr 2>`.
//!
//! ```text
//! packet  := [ '[' ip | quoted ']' | '(' ip ')' ] [port '>' port] (segment | udp '(' n ')' | icmp) ['{' changes '}']
//! segment := flags (seq ':' end | '...') '(' len ')' ['ack' n] ['win' n] ['urg' n] [options]
//! flags   := letters of F S R P U E W A, '.', a digit for the ACE field, or '-' for none, without blanks between
//! icmp    := 'icmp' type [code] ['mtu' n] ['[' quoted ']']
//! ```

use super::Parser;
use crate::script::icmp;
use crate::script::lexer::{SyntaxError, Token};
use crate::script::options::{ACC_ECN_0, ACC_ECN_1, OptionsSpec, TcpOption};
use crate::script::syntax::{Body, EcnField, IcmpSpec, IpSpec, PacketSpec, Quoted, TcpSpec};

impl Parser<'_> {
    pub(super) fn packet(&mut self) -> Result<PacketSpec, SyntaxError> {
        let mut ip = IpSpec::default();
        let mut about = None;
        while self.accept('[') {
            match self.quoted()? {
                Some(quoted) => about = Some(quoted),
                None => self.ip_info(&mut ip)?,
            }
            self.expect(']')?;
        }
        // FreeBSD's dialect.
        if *self.peek() == Token::Sign('(') {
            self.at += 1;
            self.ip_info(&mut ip)?;
            self.expect(')')?;
        }
        let ports = match (self.peek(), self.peek_at(1)) {
            (Token::Int(_), Token::Sign('>')) => Some(self.ports()?),
            _ => None,
        };
        let body = if self.accept_word("udp") {
            Body::Udp(self.bracketed()?)
        } else if self.accept_word("icmp") {
            Body::Icmp(self.icmp(about)?)
        } else {
            Body::Tcp(self.segment()?)
        };
        let changes = match self.accept('{') {
            true => self.changes()?,
            false => Vec::new(),
        };
        Ok(PacketSpec {
            ip,
            ports,
            body,
            changes,
        })
    }

    /// The packet that an ICMP message quotes, if there is one.
    fn quoted(&mut self) -> Result<Option<Quoted>, SyntaxError> {
        Ok(if let Token::Int(_) = self.peek() {
            Some(self.quoted_segment()?)
        } else if self.accept_word("udp") {
            Some(Quoted::Udp(self.bracketed()?))
        } else {
            None
        })
    }

    /// `ecn` and the like, up to the closing bracket.
    fn ip_info(&mut self, ip: &mut IpSpec) -> Result<(), SyntaxError> {
        loop {
            let name = self.word("a field of the IP header")?;
            match name.as_str() {
                "noecn" => ip.ecn = Some(EcnField::NotEct),
                "ect0" => ip.ecn = Some(EcnField::Ect0),
                "ect1" => ip.ecn = Some(EcnField::Ect1),
                "ect01" => ip.ecn = Some(EcnField::Ect01),
                "ce" => ip.ecn = Some(EcnField::Ce),
                "tos" => ip.tos = Some(self.int("a traffic class")?),
                "ttl" => ip.ttl = Some(self.int("a time to live")?),
                other => return self.error(format!("{other}: no field of an IPv4 header")),
            }
            if !self.accept(',') {
                return Ok(());
            }
        }
    }

    fn ports(&mut self) -> Result<(u16, u16), SyntaxError> {
        let src = self.int("a port")?;
        self.expect('>')?;
        let dst = self.int("a port")?;
        self.accept(':');
        Ok((src, dst))
    }

    /// `(n)`.
    fn bracketed(&mut self) -> Result<usize, SyntaxError> {
        self.expect('(')?;
        let n = self.int::<u16>("a length")?;
        self.expect(')')?;
        Ok(usize::from(n))
    }

    /// `seq:end(len)` or `seq(len)`.
    fn range(&mut self) -> Result<(u32, u32), SyntaxError> {
        let seq: u32 = self.int("a sequence number")?;
        let mut end = None;
        if self.accept(':') {
            end = Some(self.int::<u32>("the end of the sequence numbers")?);
        }
        self.expect('(')?;
        let len: u32 = self.int::<u16>("a length")?.into();
        self.expect(')')?;
        match end {
            Some(end) if end != seq.wrapping_add(len) => self.error(format!(
                "{seq}:{end} are {} sequence numbers, not {len}",
                end.wrapping_sub(seq)
            )),
            _ => Ok((seq, len)),
        }
    }

    fn quoted_segment(&mut self) -> Result<Quoted, SyntaxError> {
        let (seq, len) = self.range()?;
        Ok(Quoted::Tcp { seq, len })
    }

    fn segment(&mut self) -> Result<TcpSpec, SyntaxError> {
        let flags = self.flags()?;
        let any_seq = *self.peek() == Token::Ellipsis;
        let (seq, len) = match any_seq {
            true => {
                self.at += 1;
                (0, self.bracketed()? as u32)
            }
            false => self.range()?,
        };
        let mut spec = TcpSpec {
            flags,
            seq,
            any_seq,
            len,
            ack: None,
            win: None,
            urg: None,
            options: OptionsSpec::These(Vec::new()),
        };
        loop {
            if self.accept_word("ack") {
                spec.ack = Some(self.int("an acknowledgement number")?);
            } else if self.accept_word("win") {
                spec.win = Some(self.int("a window")?);
            } else if self.accept_word("urg") {
                spec.urg = Some(self.int("an urgent pointer")?);
            } else {
                break;
            }
        }
        if *self.peek() == Token::Sign('<') {
            self.at += 1;
            spec.options = self.options()?;
        }
        Ok(spec)
    }

    /// The letters and digits up to the first blank: a digit behind the point looks like a time to the lexer.
    fn flags(&mut self) -> Result<u16, SyntaxError> {
        let Some(first) = self.tokens.get(self.at).map(|placed| placed.span.clone()) else {
            return self.wanted("the flags of a segment");
        };
        let mut end = first.start;
        let mut ahead = 0;
        while let Some(placed) = self.tokens.get(self.at + ahead)
            && placed.span.start == end
            && placed.token != Token::End
        {
            end = placed.span.end;
            ahead += 1;
        }
        let text = self.text.get(first.start..end).unwrap_or_default();
        match text
            .chars()
            .try_fold(0, |all, letter| Some(all | flag(letter)?))
        {
            Some(flags) if ahead > 0 => {
                self.at += ahead;
                Ok(flags)
            }
            _ => self.wanted("the flags of a segment, udp or icmp"),
        }
    }

    /// The list behind `<`, with its `>`.
    fn options(&mut self) -> Result<OptionsSpec, SyntaxError> {
        if *self.peek() == Token::Ellipsis {
            self.at += 1;
            self.expect('>')?;
            return Ok(OptionsSpec::Any);
        }
        let mut all = Vec::new();
        while !self.accept('>') {
            if !all.is_empty() {
                self.expect(',')?;
            }
            all.push(self.option()?);
        }
        match super::super::options::emit(&all) {
            Some(_) => Ok(OptionsSpec::These(all)),
            None => self.error("these options are more than 40 bytes"),
        }
    }

    fn option(&mut self) -> Result<TcpOption, SyntaxError> {
        let name = self.word("a TCP option")?;
        Ok(match name.as_str() {
            "eol" => TcpOption::Eol,
            "nop" => TcpOption::Nop,
            "mss" => TcpOption::Mss(self.int("a segment size")?),
            "wscale" => TcpOption::WindowScale(self.int_or_any("a window scale")?),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => TcpOption::Sack(self.sack_blocks()?),
            "TS" => self.timestamps()?,
            "ECN" => self.acc_ecn()?,
            "FO" => TcpOption::FastOpen(self.hex()?, false),
            "FOEXP" => TcpOption::FastOpen(self.hex()?, true),
            "md5" => {
                let digest = self.hex()?;
                TcpOption::Md5(std::array::from_fn(|i| digest.get(i).copied().unwrap_or(0)))
            }
            "kind" => {
                let kind = self.int("the kind of an option")?;
                TcpOption::Other(kind, self.hex()?)
            }
            other => return self.error(format!("{other}: no such TCP option")),
        })
    }

    fn sack_blocks(&mut self) -> Result<Vec<(u32, u32)>, SyntaxError> {
        let mut blocks = Vec::new();
        while let Token::Int(_) = self.peek() {
            let left = self.int("the left edge of a block")?;
            self.expect(':')?;
            blocks.push((left, self.int("the right edge of a block")?));
        }
        match blocks.is_empty() {
            true => self.wanted("a SACK block"),
            false => Ok(blocks),
        }
    }

    /// Up to three counts, each behind its name; the first name tells the order.
    fn acc_ecn(&mut self) -> Result<TcpOption, SyntaxError> {
        let order_1 = matches!(self.peek(), Token::Word(word) if word == ACC_ECN_1[0]);
        let names = if order_1 { ACC_ECN_1 } else { ACC_ECN_0 };
        let mut counts = Vec::new();
        for name in names {
            if !self.accept_word(name) {
                break;
            }
            counts.push(self.int("a count of bytes")?);
        }
        Ok(TcpOption::AccEcn(counts, order_1))
    }

    fn timestamps(&mut self) -> Result<TcpOption, SyntaxError> {
        let mut both = [None; 2];
        for (value, name) in both.iter_mut().zip(["val", "ecr"]) {
            if !self.accept_word(name) {
                return self.wanted(name);
            }
            *value = self.int_or_any("a timestamp")?;
        }
        Ok(TcpOption::Timestamps(both[0], both[1]))
    }

    /// A number, or `...` for any.
    fn int_or_any<T: TryFrom<i64>>(&mut self, what: &str) -> Result<Option<T>, SyntaxError> {
        match *self.peek() {
            Token::Ellipsis => {
                self.at += 1;
                Ok(None)
            }
            _ => self.int(what).map(Some),
        }
    }

    /// Bytes as hexadecimal digits, which may look like a number, a name, or both in turn; maybe none.
    fn hex(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut digits = String::new();
        while let Token::Word(_) | Token::Int(_) = self.peek() {
            let span = self.tokens[self.at].span.clone();
            digits.push_str(self.text.get(span).unwrap_or_default());
            self.at += 1;
        }
        let digits = digits.strip_prefix("0x").unwrap_or(&digits);
        let nibbles: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(16)).collect();
        match nibbles {
            Some(all) if all.len() % 2 == 0 => Ok(all
                .chunks(2)
                .map(|two| (two[0] << 4 | two[1]) as u8)
                .collect()),
            _ => self.error(format!("{digits}: not whole bytes in hexadecimal")),
        }
    }

    fn icmp(&mut self, about: Option<Quoted>) -> Result<IcmpSpec, SyntaxError> {
        let at = self.line();
        let name = self.word("the type of an ICMP message")?;
        let code = match self.peek().clone() {
            Token::Word(word) if word != "mtu" => {
                self.at += 1;
                word
            }
            _ => String::new(),
        };
        let kind = icmp::named(&name, &code).map_err(|why| SyntaxError::new(at, why))?;
        let mtu = match self.accept_word("mtu") {
            true => Some(self.int("an MTU")?),
            false => None,
        };
        // The newer form has it here, the older one before the type.
        let mut about = about;
        if self.accept('[') {
            about = self.quoted()?;
            self.expect(']')?;
        }
        Ok(IcmpSpec { kind, mtu, about })
    }
}

/// The bits of a flag. AE (RFC 9768), beside the header's byte of flags, is bit 8; a digit stands for the ACE field,
/// which is AE, CWR and ECE (RFC 9768 3.2.2).
fn flag(letter: char) -> Option<u16> {
    if let Some(ace) = letter.to_digit(8) {
        return Some((ace as u16) << 6);
    }
    Some(match letter {
        '-' => 0,
        '.' => 0x10,
        'F' => 0x01,
        'S' => 0x02,
        'R' => 0x04,
        'P' => 0x08,
        'U' => 0x20,
        'E' => 0x40,
        'W' => 0x80,
        'A' => 0x100,
        _ => return None,
    })
}
