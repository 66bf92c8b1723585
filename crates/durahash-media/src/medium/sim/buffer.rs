//! Heap memory for simulated media, handed from one to the next.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

/// Alignment of a medium's base, so that any struct on it is.
const ALIGN: usize = 256;
/// Buffers that a thread keeps for the next media.
const KEPT: usize = 8;
/// Larger buffers go back to the system, lest tests with real pools hoard memory.
const KEPT_BYTES: usize = 16 << 20;

thread_local! {
    static FREE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Zeroed memory, except for its first `dirty` bytes.
pub(in crate::medium) struct Buffer {
    allocated: NonNull<u8>,
    bytes: usize,
    dirty: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Buffer {}
// SAFETY: nothing is reached through a shared reference but the address.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `bytes` bytes that begins with `image` and is zero behind it.
    ///
    /// # Panics
    /// When `image` is longer than the buffer.
    pub(in crate::medium) fn take(bytes: usize, image: &[u64]) -> Buffer {
        let image_bytes = size_of_val(image);
        assert!(image_bytes <= bytes, "the image is longer than the medium");
        let kept = FREE.with_borrow_mut(|free| {
            let at = free.iter().rposition(|buffer| buffer.bytes == bytes)?;
            Some(free.swap_remove(at))
        });
        let buffer = kept.unwrap_or_else(|| Buffer::allocate(bytes));
        let base = buffer.base();
        // SAFETY: `image` and the dirty part end inside the buffer, which is ours alone.
        unsafe {
            base.cast::<u64>().copy_from_nonoverlapping(NonNull::from(image).cast(), image.len());
            if buffer.dirty > image_bytes {
                base.add(image_bytes).write_bytes(0, buffer.dirty - image_bytes);
            }
        }
        buffer
    }

    /// Allocated as zeros with the smallest alignment and aligned by hand: so the system gives
    /// untouched pages, where an aligned allocation would be cleared byte by byte.
    fn allocate(bytes: usize) -> Buffer {
        let layout = Buffer::layout(bytes);
        // SAFETY: the layout is not empty.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })
            .unwrap_or_else(|| handle_alloc_error(layout));
        Buffer { allocated, bytes, dirty: 0 }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes + ALIGN, align_of::<u64>()).expect("size of a medium")
    }

    /// The first byte.
    pub(in crate::medium) fn base(&self) -> NonNull<u8> {
        let skip = self.allocated.align_offset(ALIGN);
        // SAFETY: the allocation is longer than the buffer by one alignment.
        unsafe { self.allocated.add(skip) }
    }

    /// Keeps the buffer, whose first `dirty` bytes may have been written, for the thread's next
    /// medium.
    pub(in crate::medium) fn recycle(mut self, dirty: usize) {
        self.dirty = dirty;
        if self.bytes > KEPT_BYTES {
            return;
        }
        // At the thread's end there is no list any more, and the buffer is freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() == KEPT {
                free.remove(0);
            }
            free.push(self);
        });
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no borrow of it is left.
        unsafe { dealloc(self.allocated.as_ptr(), Buffer::layout(self.bytes)) };
    }
}
