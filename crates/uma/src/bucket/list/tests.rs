//! The lists against the standard library's, over the same random orders.

use super::{BucketList, BucketStack};
use crate::bucket::{Owned, PushOutcome};
use core::ptr::NonNull;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A push of a bucket with this many items.
    Push(usize),
    PopFront,
    PopBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4usize).prop_map(Step::Push),
        Just(Step::PopFront),
        Just(Step::PopBack),
    ]
}

/// The bucket's items are numbers that look like addresses.
fn bucket_of(items: usize) -> Owned {
    let mut bucket = Owned::alloc(4, 4).expect("memory");
    for n in 1..=items {
        let item = NonNull::without_provenance((64 * n).try_into().expect("not 0"));
        assert_eq!(bucket.push(item), PushOutcome::Done);
    }
    bucket
}

/// Its name and how many items it had; then it is no more.
fn end(mut bucket: Owned) -> (NonNull<crate::bucket::Bucket>, usize) {
    let (name, items) = (bucket.name(), bucket.len());
    bucket.truncate(0);
    bucket.free();
    (name, items)
}

proptest! {
    /// Fails if a bucket is lost, or comes at another time than its turn, or is counted wrong.
    #[test]
    fn a_list_is_a_deque(steps in prop::collection::vec(step(), 0..60)) {
        let (mut list, mut model) = (BucketList::new(), VecDeque::new());
        for step in steps {
            match step {
                Step::Push(items) => {
                    let bucket = bucket_of(items);
                    model.push_back((bucket.name(), items));
                    list.push_back(bucket);
                }
                Step::PopFront => prop_assert_eq!(list.pop_front().map(end), model.pop_front()),
                Step::PopBack => prop_assert_eq!(list.pop_back().map(end), model.pop_back()),
            }
            prop_assert_eq!(list.len(), model.len());
            prop_assert_eq!(list.items(), model.iter().map(|&(_, items)| items).sum::<usize>());
            prop_assert!(list.lens().eq(model.iter().map(|&(_, items)| items)));
        }
        while let Some(bucket) = list.pop_front() {
            prop_assert_eq!(Some(end(bucket)), model.pop_front());
        }
        prop_assert!(model.is_empty());
    }

    /// As above.
    #[test]
    fn a_stack_is_a_vec(steps in prop::collection::vec(step(), 0..60)) {
        let (mut stack, mut model) = (BucketStack::new(), Vec::new());
        for step in steps {
            match step {
                Step::Push(items) => {
                    let bucket = bucket_of(items);
                    model.push((bucket.name(), items));
                    stack.push(bucket);
                }
                Step::PopFront | Step::PopBack => prop_assert_eq!(stack.pop().map(end), model.pop()),
            }
            prop_assert!(stack.lens().eq(model.iter().rev().map(|&(_, items)| items)));
        }
        while let Some(bucket) = stack.pop() {
            prop_assert_eq!(Some(end(bucket)), model.pop());
        }
        prop_assert!(model.is_empty());
    }
}
