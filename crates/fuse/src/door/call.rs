//! A request while it is performed.

use super::state::overtaken::Node;
use crate::kernel::abi::{EntryOut, InHeader};
use crate::kernel::answer::Answer;
use crate::kernel::device::Device;
use crate::kernel::request::Arguments;
use cuesta_format::InodeNumber;
use cuesta_libfs::{Base, Moment};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// A request whose answer is being put together.
pub(super) struct Call<'a> {
    pub(super) header: InHeader,
    pub(super) arguments: Arguments<'a>,
    pub(super) answer: &'a mut Answer,
    pub(super) device: &'a Arc<Device>,
    /// When it came.
    pub(super) began: Instant,
    pub(super) moment: Moment,
    /// Pages that the kernel is to forget once it has the answer.
    pub(super) older_pages: Option<Range<u64>>,
    /// Its answer begins with this, which is about a name, in the directory it is about: the kernel may keep it.
    pub(super) entry: Option<EntryOut>,
}

impl Call<'_> {
    /// The number that the kernel knows the inode by that it is about.
    pub(super) fn node(&self) -> Node {
        Node(self.header.node)
    }

    /// The inode it is about.
    pub(super) fn inode(&self) -> InodeNumber {
        self.node().inode()
    }

    /// The same, as where a path starts.
    pub(super) fn base(&self) -> Base<'static> {
        Base::Inode(self.inode())
    }
}
