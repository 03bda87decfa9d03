//! An allocator that counts what each thread asks of it, for tests that promise how often and how
//! much is allocated. A program that has one says so in one line:
//!
//! ```
//! use punctual_count_alloc::{CountingAllocator, counted};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let (numbers, counts) = counted(|| Vec::<u64>::with_capacity(100));
//! assert_eq!((counts.allocations, counts.held_bytes), (1, 800));
//! drop(numbers);
//! ```
#![expect(
    unsafe_code,
    reason = "an allocator cannot be had without; this crate has nothing else and only tests use it"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// What one thread asked of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that may have given new memory: allocations and reallocations.
    pub allocations: u64,
    /// Calls that gave memory back.
    pub deallocations: u64,
    /// Bytes allocated and not given back, as they were asked for. What another thread gives back
    /// counts there, so this may be negative.
    pub held_bytes: i64,
}

impl Counts {
    /// What this thread asked for since it started; all zero where another allocator is in use.
    pub fn now() -> Self {
        COUNTS.get()
    }

    /// What came between `earlier` and these.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations - earlier.allocations,
            deallocations: self.deallocations - earlier.deallocations,
            held_bytes: self.held_bytes - earlier.held_bytes,
        }
    }
}

/// What this thread asks of the allocator while it does `work`.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    let before = Counts::now();
    let result = work();
    (result, Counts::now().since(before))
}

thread_local! {
    // Constant and without a destructor: reading it allocates nothing and works until the thread's
    // end.
    static COUNTS: Cell<Counts> =
        const { Cell::new(Counts { allocations: 0, deallocations: 0, held_bytes: 0 }) };
}

fn count(allocations: u64, deallocations: u64, bytes: i64) {
    let counts = COUNTS.get();
    COUNTS.set(Counts {
        allocations: counts.allocations + allocations,
        deallocations: counts.deallocations + deallocations,
        held_bytes: counts.held_bytes + bytes,
    });
}

/// No object is larger than `isize::MAX` bytes.
fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call goes on to the system's allocator with the arguments it came with; counting
// touches a constant-initialised thread-local only, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, 0, signed(layout.size()));
        // SAFETY: the caller keeps this method's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, 0, signed(layout.size()));
        // SAFETY: the caller keeps this method's contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, 1, -signed(layout.size()));
        // SAFETY: the caller keeps this method's contract, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, 0, signed(size) - signed(layout.size()));
        // SAFETY: the caller keeps this method's contract, which is the same.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn each_call_counts_once_and_bytes_are_those_still_held() {
        let (mut numbers, counts) = counted(|| Vec::<u64>::with_capacity(100));
        assert_eq!(counts, Counts { allocations: 1, deallocations: 0, held_bytes: 800 });
        let ((), counts) = counted(|| numbers.reserve_exact(200));
        assert_eq!(counts, Counts { allocations: 1, deallocations: 0, held_bytes: 800 });
        let ((), counts) = counted(|| drop(numbers));
        assert_eq!(counts, Counts { allocations: 0, deallocations: 1, held_bytes: -1600 });
    }

    #[test]
    fn another_threads_allocations_count_there() {
        let ((), counts) = counted(|| {
            std::thread::scope(|scope| {
                let counts = scope.spawn(|| counted(|| vec![0_u8; 1 << 20]).1);
                assert_eq!(counts.join().expect("it returns").held_bytes, 1 << 20);
            });
        });
        assert!(counts.held_bytes < 1 << 19, "{counts:?}");
    }
}
