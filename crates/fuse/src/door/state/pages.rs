//! What pages of a file the kernel may have in its cache, as far as a door can tell: it is asked for those that are read, and
//! told of nothing else. Policy alone, of one inode; `contents` and `attributes` act on it.
//!
//! | the kernel | so the door |
//! |---|---|
//! | puts what a cached write writes into its pages, lets go of them, and then sends the write: meanwhile a page may be thrown away and read anew, as it was before | has all pages forgotten after a cached write, if any thread but the writer's read pages |
//! | throws away the pages of a write past its cache when that was sent, if it is asynchronous, and not at all before Linux 6.9 | has them forgotten before it answers, if any pages were read |
//! | says nothing of stores through mappings until it writes pages back, and asks where holes are without doing so | has it write back the pages of holes before it says anything of them, if such pages were read and any process may have mapped them to store there |

/// The threads that asked for pages, since all were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Readers {
    #[default]
    None,
    /// One thread, by its number.
    One(u32),
    Many,
}

/// Of one inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::door) struct Pages {
    readers: Readers,
    /// Cached writes have filled some.
    written: bool,
    /// Some of them may lie in holes.
    of_holes: bool,
    /// Open files by which it can be mapped so that stores change it,
    writable: u32,
    /// and those that may read these pages without a word.
    readable: u32,
}

impl Pages {
    /// A thread asks for pages. Whether from now on stores that the door is not told of may turn holes into data.
    pub(in crate::door) fn note_read(&mut self, thread: u32, of_holes: bool) -> bool {
        let could = self.may_hide_data();
        self.readers = match self.readers {
            // Of a thread in another namespace the kernel gives no number.
            Readers::None if thread != 0 => Readers::One(thread),
            Readers::One(one) if one == thread => Readers::One(one),
            _ => Readers::Many,
        };
        self.of_holes |= of_holes;
        self.may_hide_data() && !could
    }

    /// The file is opened so that it can be mapped and stored to. Answers as `note_read` does.
    pub(in crate::door) fn note_writable(&mut self) -> bool {
        let could = self.may_hide_data();
        self.writable += 1;
        self.may_hide_data() && !could
    }

    /// One that was opened so is closed.
    pub(in crate::door) fn end_writable(&mut self) {
        self.writable = self.writable.saturating_sub(1);
    }

    /// The file is opened to be read.
    pub(in crate::door) fn note_readable(&mut self) {
        self.readable += 1;
    }

    /// One that was opened so is closed.
    pub(in crate::door) fn end_readable(&mut self) {
        self.readable = self.readable.saturating_sub(1);
    }

    /// Whether reads may come that the door is not told of, unless the kernel has to ask for attributes before.
    pub(in crate::door) fn may_be_read(&self) -> bool {
        self.readable > 0
    }

    /// A cached write fills pages.
    pub(in crate::door) fn note_written(&mut self) {
        self.written = true;
    }

    /// Whether the kernel may have any.
    pub(in crate::door) fn may_be_there(&self) -> bool {
        self.written || self.are_there()
    }

    /// Whether any were read.
    pub(in crate::door) fn are_there(&self) -> bool {
        self.readers != Readers::None
    }

    /// Whether some may be older than what `thread` has just written by the cache: one that was read while the write was on
    /// its way. The thread itself read its pages before.
    pub(in crate::door) fn may_be_older_than_write(&self, thread: u32) -> bool {
        self.are_there() && self.readers != Readers::One(thread)
    }

    /// Whether holes may have become data, and the door was not told.
    pub(in crate::door) fn may_hide_data(&self) -> bool {
        self.of_holes && self.writable > 0
    }

    /// Those in holes are about to be written back and forgotten.
    pub(in crate::door) fn forget_holes(&mut self) {
        self.of_holes = false;
    }

    /// All are.
    pub(in crate::door) fn forget(&mut self) {
        self.readers = Readers::None;
        self.written = false;
        self.of_holes = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_another_thread_read_may_be_older_than_a_write() {
        let mut pages = Pages::default();
        assert!(!pages.are_there() && !pages.may_be_older_than_write(7));
        pages.note_read(7, false);
        pages.note_read(7, false);
        assert!(pages.are_there() && !pages.may_be_older_than_write(7) && pages.may_be_older_than_write(8));
        pages.note_read(8, false);
        assert!(pages.may_be_older_than_write(7) && pages.may_be_older_than_write(8));
        pages.forget();
        assert!(!pages.may_be_older_than_write(7));
        pages.note_read(0, false);
        assert!(pages.may_be_older_than_write(0));
    }

    #[test]
    fn stores_hide_data_where_holes_were_read_and_can_be_stored_to() {
        let mut pages = Pages::default();
        assert!(!pages.note_writable() && !pages.note_read(7, false));
        assert!(pages.note_read(7, true) && pages.may_hide_data());
        assert!(!pages.note_read(7, true) && !pages.note_writable());
        pages.end_writable();
        assert!(pages.may_hide_data());
        pages.end_writable();
        assert!(!pages.may_hide_data() && pages.note_writable());
        pages.forget_holes();
        assert!(!pages.may_hide_data() && pages.are_there());
    }
}
