//! The file under the tree: what redb takes for one file is two copies, with checksums of their own.
//!
//! | file | idea |
//! |---|---|
//! | `backend` | the file as redb sees it, and the journal's bytes |
//! | `copies` | both copies: opened, written, compared, mended |
//! | `header` | the page in front |
//! | `checked_pages` | a checksum for each page |
//!
//! Nothing here knows tables.

mod backend;
mod checked_pages;
mod copies;
mod header;

pub(super) use backend::{Backend, BackendFile};
pub(super) use checked_pages::PAGE_BYTES;
pub use copies::Files;
pub(super) use copies::{Exist, Side};
pub(super) use header::JOURNAL_BYTES;
pub use header::Owner;
