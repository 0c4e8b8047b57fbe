//! A directory as a page: its beginning, a line a name, its end. Each is made by itself, so that a page of a million
//! names is never in memory as a whole.
//!
//! Invariants: on the page, any name is only text and a relative link. Locks: none. Sources: the HTML standard,
//! 13.1.2.4 (attribute values) and 13.1.4 (character references).

use super::target::{FilePath, escaped};

/// The page up to its first name.
pub(crate) fn begin(path: &FilePath) -> String {
    let title = match path.is_root() {
        true => "/".to_owned(),
        false => format!("/{}/", text(&path.display())),
    };
    let up = match path.is_root() {
        true => "",
        false => "<li><a href=\"../\">..</a></li>\n",
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title></head>\n\
         <body><h1>{title}</h1>\n<ul>\n{up}"
    )
}

/// A name. Appends it to `page`.
pub(crate) fn push_name(page: &mut String, name: &[u8], is_directory: bool) {
    let slash = if is_directory { "/" } else { "" };
    // `./` before it: a name with a colon would be a URL with a scheme.
    page.push_str("<li><a href=\"./");
    page.push_str(&escaped(name));
    page.push_str(slash);
    page.push_str("\">");
    page.push_str(&text(&String::from_utf8_lossy(name)));
    page.push_str(slash);
    page.push_str("</a></li>\n");
}

/// The page from its last name on.
pub(crate) const END: &str = "</ul>\n</body></html>\n";

/// A piece of a body whose length was not told before (RFC 9112 7.1). An empty piece is not made, because it would end
/// the body.
pub(crate) fn push_chunk(out: &mut Vec<u8>, piece: &[u8]) {
    if !piece.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
}

/// The end of such a body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Text of the page, in which nothing is markup. Control characters would change how the rest looks.
fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}
