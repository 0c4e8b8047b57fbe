//! Status codes of the answers.
//!
//! Locks: none.
//! Sources: RFC 9110 section 15; RFC 6585 section 5 (431).

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpStatus {
    /// The whole representation.
    Ok,
    /// A part of it.
    PartialContent,
    /// A directory: its name ends in a slash.
    MovedPermanently,
    /// The client has it.
    NotModified,
    /// It makes no sense.
    BadRequest,
    /// This process may not read it, or it is neither a file nor a directory.
    Forbidden,
    /// There is no such file.
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// The head did not come in time.
    RequestTimeout,
    /// A condition of the client does not hold.
    PreconditionFailed,
    /// The request line is longer than a head may be.
    UriTooLong,
    /// None of the ranges is in the file.
    RangeNotSatisfiable,
    /// The head is longer than it may be, or has too many fields.
    HeaderFieldsTooLarge,
    /// The file could not be read.
    InternalServerError,
    /// No descriptor or buffer is left.
    ServiceUnavailable,
    /// It is of a version of HTTP that is not known here.
    VersionNotSupported,
}

impl HttpStatus {
    /// The number.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::PartialContent => 206,
            Self::MovedPermanently => 301,
            Self::NotModified => 304,
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::PreconditionFailed => 412,
            Self::UriTooLong => 414,
            Self::RangeNotSatisfiable => 416,
            Self::HeaderFieldsTooLarge => 431,
            Self::InternalServerError => 500,
            Self::ServiceUnavailable => 503,
            Self::VersionNotSupported => 505,
        }
    }

    /// The standard's words.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::PartialContent => "Partial Content",
            Self::MovedPermanently => "Moved Permanently",
            Self::NotModified => "Not Modified",
            Self::BadRequest => "Bad Request",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::PreconditionFailed => "Precondition Failed",
            Self::UriTooLong => "URI Too Long",
            Self::RangeNotSatisfiable => "Range Not Satisfiable",
            Self::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::InternalServerError => "Internal Server Error",
            Self::ServiceUnavailable => "Service Unavailable",
            Self::VersionNotSupported => "HTTP Version Not Supported",
        }
    }

    /// Whether the connection ends after it: where the next request begins is not known.
    pub(crate) const fn ends_connection(self) -> bool {
        matches!(
            self,
            Self::BadRequest
                | Self::MethodNotAllowed
                | Self::RequestTimeout
                | Self::UriTooLong
                | Self::HeaderFieldsTooLarge
                | Self::VersionNotSupported
        )
    }
}
