//! `Debug` of types that show a part of themselves: handles, and owners of locks.
//!
//! A derived `Debug` would print the state of the whole stack behind a handle, and wait for locks.
//!
//! Locks: none here.

/// Implements `Debug` for a type: its name, the fields that the list names, and `..`.
///
/// ```
/// struct Listener {
///     port: u16,
///     secret: u64,
/// }
///
/// kern::impl_debug!(Listener |this| port: this.port);
///
/// let listener = Listener { port: 80, secret: 7 };
/// assert_eq!(format!("{listener:?}"), "Listener { port: 80, .. }");
/// # let _ = listener.secret;
/// ```
#[macro_export]
macro_rules! impl_debug {
    ($name:ident $(<$life:lifetime>)? $(|$this:ident| $($field:ident: $value:expr),+ $(,)?)?) => {
        impl ::core::fmt::Debug for $name $(<$life>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $(let $this = self;)?
                f.debug_struct(stringify!($name))
                    $($(.field(stringify!($field), &$value))+)?
                    .finish_non_exhaustive()
            }
        }
    };
}
