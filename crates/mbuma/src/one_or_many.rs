//! A list that mostly has one element, which lies in the list itself and needs no allocation.
//!
//! Locks: none.
//!
//! Invariant: `others` is empty where `last` is.

/// A stack of few elements.
#[derive(Debug)]
pub(crate) struct OneOrMany<T> {
    last: Option<T>,
    #[expect(
        clippy::box_collection,
        reason = "one word, so that an empty list is quickly made and dropped"
    )]
    others: Option<Box<Vec<T>>>,
}

impl<T> OneOrMany<T> {
    pub(crate) const fn new() -> Self {
        Self {
            last: None,
            others: None,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    #[inline]
    pub(crate) fn push(&mut self, one: T) {
        if let Some(before) = self.last.replace(one) {
            self.others.get_or_insert_default().push(before);
        }
    }

    /// The one that was put last.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.last.as_mut()
    }

    /// Takes the one that was put last.
    #[inline(always)] // mostly there is one, or none
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.last.take()?;
        if let Some(others) = &mut self.others {
            self.last = others.pop();
        }
        Some(last)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Breaks if an element is lost, comes twice, or in another order than that of a stack.
    #[test]
    fn it_is_a_stack() {
        let (mut few, mut model) = (OneOrMany::new(), Vec::new());
        for n in 0..100_u32 {
            let pushes = n.wrapping_mul(2_654_435_761) >> 29;
            for k in 0..pushes {
                few.push((n, k));
                model.push((n, k));
            }
            for _ in 0..4 {
                assert_eq!(few.pop(), model.pop());
            }
        }
        while let Some(one) = model.pop() {
            assert_eq!(few.pop(), Some(one));
        }
        assert_eq!(few.pop(), None);
    }
}
